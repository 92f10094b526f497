"""Charts as small SVG drawings, with colours that follow the page on light and dark screens and on paper.

Every function returns an `<svg>` for a page that defines `page_style()`; `standalone` makes a separate file of it.
Series differ in dashes as well as in colour.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

LIGHT = {
    "paper": "#ffffff", "ink": "#1d2126", "soft": "#59626d", "rule": "#d9dde3", "bar": "#c5ccd6", "ours": "#86a5d3",
    "c0": "#1f5fa8", "c1": "#c2500a", "c2": "#0c7d5c", "shade": "#eceff3",
}  # fmt: skip
DARK = {
    "paper": "#16191d", "ink": "#e6e9ed", "soft": "#a0a9b4", "rule": "#363c44", "bar": "#4a525d", "ours": "#47699c",
    "c0": "#6fb1f5", "c1": "#f79a5a", "c2": "#43c79c", "shade": "#23282e",
}  # fmt: skip

# Dashes of the series of a chart, so that it can be read without colours.
DASHES = ("", "7 3", "2 3")

CHART_STYLE = "".join(
    [
        "svg text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--ink)}",
        "svg .small{font-size:11px;fill:var(--soft)}svg .end{text-anchor:end}svg .middle{text-anchor:middle}",
        "svg .rule{stroke:var(--rule);fill:none}svg .chance{stroke:var(--soft);fill:none;stroke-dasharray:3 3}",
        "svg .bar{fill:var(--bar)}svg .ours{fill:var(--ours)}svg .range{stroke:var(--ink);fill:none;stroke-width:1.2}",
        "svg .median{stroke:var(--ink);stroke-width:2}svg .line{fill:none;stroke-width:1.8}",
        "svg .band{fill:var(--ours);fill-opacity:.35}",
        "svg .dot{fill:var(--c0);stroke:none}",
        *(f"svg .s{k}{{stroke:var(--c{k});stroke-dasharray:{DASHES[k] or 'none'}}}" for k in range(len(DASHES))),
    ]
)

# Small enough that text can be read where a chart is shrunk to the width of a phone.
WIDTH = 400
NARROW = 360  # of charts that are placed side by side
PLOT = (46, 10, 240, NARROW - 20)  # left, top, bottom and right of the plot of such a chart
DECADES = 5  # that logarithmic axes show
CHARACTER = 6.6  # approximate width of a letter: there is no browser to measure text
NOTE_HEIGHT = 16  # of a line of text below a chart
BINS = 20

Scale = Callable[[float], float]  # from values to positions in a drawing
Ticks = list[tuple[float, str]]  # values and their texts

# Characters that XML lacks, separators of lines, and marks that change the direction of the text around them.
ILL_FORMED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def escape(value: object) -> str:
    """Return text for HTML and XML: markup is escaped; control characters, which XML lacks, separators of lines and
    marks of text direction are replaced."""
    return html.escape(ILL_FORMED.sub("\ufffd", str(value)))


def page_style() -> str:
    """Return the CSS that charts need: colours for light and dark screens, light ones for paper."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in colours.items()) for colours in (LIGHT, DARK))
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}{CHART_STYLE}"
    )


def standalone(svg: str) -> str:
    """Return a chart as a separate file: light colours on white, without variables, which not every viewer supports."""
    style = re.sub(r"var\(--(\w+)\)", lambda match: LIGHT[match[1]], CHART_STYLE)
    paper = f'<style>{style}</style><rect width="100%" height="100%" fill="{LIGHT["paper"]}"/>'
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(">", f">{paper}", 1) + "\n"


def lines(
    series: Sequence[tuple[str | None, Iterable[float], Iterable[float]]],
    title: str,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] = (0.0, 1.0),
    y_range: tuple[float, float] = (0.0, 1.0),
    diagonal: bool = False,
    band: tuple[Iterable[float], Iterable[float], Iterable[float]] | None = None,
) -> str:
    """Draw (name, x, y) as lines, named inside the chart.

    Names are in the lower right corner of a chart with a diagonal, which curves do not reach, otherwise in the upper
    right one. ``band``, (x, low, high), is drawn behind the lines.
    """
    left, top, bottom, right = PLOT
    x_scale, y_scale = _scale(x_range, left, right), _scale(y_range, bottom, top)
    parts = _axes((x_scale, _labelled(x_range)), (y_scale, _labelled(y_range)), x_label, y_label)
    if diagonal:
        parts.append(f'<path class="chance" d="M{left} {bottom}L{right} {top}"/>')
    if band is not None:
        x, low, high = (list(values) for values in band)
        corners = [*zip(x, low, strict=True), *reversed(list(zip(x, high, strict=True)))]
        places = " ".join(f"{x_scale(a)},{y_scale(b)}" for a, b in corners)
        parts.append(f'<polygon class="band" points="{places}"/>')
    named = [name for name, *_ in series if name is not None]
    first = bottom - 12 - 18 * (len(named) - 1) if diagonal else top + 16
    for k, (name, *points) in enumerate(series):
        places = " ".join(f"{x_scale(x)},{y_scale(y)}" for x, y in zip(*points, strict=True) if np.isfinite(y))
        parts.append(f'<polyline class="line s{k % len(DASHES)}" points="{places}"/>')
        if name is not None:
            y = first + 18 * k
            parts.append(f'<path class="line s{k % len(DASHES)}" d="M{right - 30} {y - 4:g}h26"/>')
            parts.append(_text(right - 36, y, _short(name, 26), "small end"))
    return _svg(parts, bottom + 42, title, NARROW)


def agreement(
    points: Sequence[tuple[float, float]], title: str, x_label: str, y_label: str, logarithmic: bool = False
) -> str:
    """Draw (predicted, observed) as dots, joined in their order, with a dotted line where both are equal.

    Both axes have the same range, from 0. If they are logarithmic, it is at most `DECADES` powers of ten, and smaller
    values are drawn at its lower end. Points that are not finite are left out.
    """
    left, top, bottom, right = PLOT
    known = np.array([point for point in points if np.isfinite(point).all()], dtype=np.float64).reshape(-1, 2)
    if logarithmic:
        powers = np.log10(known[known > 0.0])
        high = float(np.ceil(powers.max(initial=-np.inf))) if len(powers) else 0.0
        low = float(np.floor(powers.min(initial=high - 1.0)))
        values = (max(low, high - DECADES), high)
        known = np.log10(np.maximum(known, 10.0 ** values[0]))
        ticks = [(power, _power(int(power))) for power in np.arange(values[0], high + 1.0).tolist()]
    else:
        values = (0.0, float(known.max(initial=0.0)) * 1.05 or 1.0)
        ticks = _labelled(values)
    x_scale, y_scale = _scale(values, left, right), _scale(values, bottom, top)
    parts = _axes((x_scale, ticks), (y_scale, ticks), x_label, y_label)
    parts.append(f'<path class="chance" d="M{left} {bottom}L{right} {top}"/>')
    places = [(x_scale(x), y_scale(y)) for x, y in known.tolist()]
    parts.append(f'<polyline class="line s0" points="{" ".join(f"{x},{y}" for x, y in places)}"/>')
    parts += [f'<circle class="dot" cx="{x}" cy="{y}" r="3.5"/>' for x, y in places]
    return _svg(parts, bottom + 42, title, NARROW)


def distributions(rows: Sequence[tuple[str, np.ndarray]], title: str, x_label: str) -> str:
    """Draw a histogram from 0 to 1 for each (name, values), one below the other, with the median of each."""
    row_height, top = 36, 8
    left, right = _label_width([name for name, _ in rows]), WIDTH - 92
    bottom = top + row_height * len(rows)
    scale = _scale((0.0, 1.0), left, right)
    parts = [f'<path class="chance" d="M{scale(0.5)} {top}V{bottom}"/>']
    for place, (name, values) in enumerate(rows):
        base = top + row_height * (place + 1) - 4
        counts = np.histogram(values, bins=BINS, range=(0.0, 1.0))[0]
        for b in np.flatnonzero(counts):
            x, height = scale(b / BINS), round(float((row_height - 8) * counts[b] / counts.max()), 1)
            width = round(scale((b + 1) / BINS) - x - 1, 1)
            parts.append(f'<rect class="ours" x="{x}" y="{base - height:.1f}" width="{width}" height="{height}"/>')
        parts.append(
            f'<path class="rule" d="M{left} {base}H{right}"/>' + _text(left - 8, base - 8, _short(name), "end")
        )
        if len(values):
            median = float(np.median(values))
            parts.append(f'<path class="median" d="M{scale(median)} {base + 3}v-{row_height - 8}"/>')
            parts.append(_text(right + 8, base - 8, f"{median:.3f}  n={len(values):,}", "small"))
        else:
            parts.append(_text(right + 8, base - 8, "none", "small"))
    parts += _x_ticks(_labelled((0.0, 1.0)), scale, bottom)
    parts.append(_text((left + right) / 2, bottom + 34, x_label, "small middle"))
    return _svg(parts, bottom + 42, title, WIDTH)


def by_method(
    rows: Sequence[tuple[str, Sequence[float]]],
    tasks: Sequence[str],
    title: str,
    x_label: str,
    ours: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Draw the values of each (method, value per task): a bar from chance to their mean, and a line over their range.

    nan is a task without a value. The methods called `ours` are coloured. `notes` are lines of text below the axis.
    """
    row_height, top = 30, 6
    left, right = _label_width([name for name, _ in rows]), WIDTH - 46
    bottom = top + row_height * len(rows)
    lowest = min([0.5, *(value for _, values in rows for value in values if np.isfinite(value))])
    x_range = (float(np.floor(lowest * 10) / 10), 1.0)
    scale = _scale(x_range, left, right)
    parts = []
    for place, (name, values) in enumerate(rows):
        middle = top + row_height * place + row_height / 2
        known = [value for value in values if np.isfinite(value)]
        parts.append(_text(left - 8, middle + 4, _short(name), "end"))
        if not known:
            continue
        mean = sum(known) / len(known)
        start, end = sorted((scale(0.5), scale(mean)))
        kind = "ours" if name in ours else "bar"
        parts.append(f'<rect class="{kind}" x="{start}" y="{middle - 10}" width="{end - start:.1f}" height="20"/>')
        if len(tasks) > 1:
            low, high = scale(min(known)), scale(max(known))
            parts.append(f'<path class="range" d="M{low} {middle - 4}v8M{high} {middle - 4}v8M{low} {middle}H{high}"/>')
        parts.append(_text(right + 8, middle + 4, f"{mean:.3f}"))
    parts.append(f'<path class="chance" d="M{scale(0.5)} {top}V{bottom}"/>')
    parts += _x_ticks(_labelled(x_range), scale, bottom)
    parts.append(_text((left + right) / 2, bottom + 34, x_label, "small middle"))
    parts += [_text(8, bottom + 60 + NOTE_HEIGHT * line, note, "small") for line, note in enumerate(notes)]
    return _svg(parts, bottom + 42 + (12 + NOTE_HEIGHT * len(notes) if notes else 0), title, WIDTH)


# ---- parts of a chart -----------------------------------------------------------------------------------------------


def _svg(parts: Sequence[str], height: float, title: str, width: float) -> str:
    inner = "".join(parts)
    return f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(title)}">{inner}</svg>'


def _scale(values: tuple[float, float], start: float, end: float) -> Scale:
    """Return the function from values to positions in the drawing."""
    low, high = values
    return lambda value: round(float(start + (value - low) / ((high - low) or 1.0) * (end - start)), 1)


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers from low to high."""
    raw = (high - low) / 5 or 1.0
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999) * power
    first = np.ceil(low / step - 1e-9)
    return [float(round(k * step, 10)) + 0.0 for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def _labelled(values: tuple[float, float]) -> Ticks:
    """Return round numbers of a range with their texts."""
    return [(tick, f"{tick:,.10g}") for tick in _ticks(*values)]


def _power(power: int) -> str:
    """Return a power of ten as a text short enough for the space beside an axis."""
    return f"{10.0**power:g}" if -2 <= power <= 3 else f"1e{power}"


def _x_ticks(ticks: Ticks, scale: Scale, bottom: float) -> list[str]:
    labels = [(scale(tick), text) for tick, text in ticks]
    return [
        f'<path class="rule" d="M{x} {bottom}v4"/>{_text(x, bottom + 17, text, "small middle")}' for x, text in labels
    ]


def _axes(x_axis: tuple[Scale, Ticks], y_axis: tuple[Scale, Ticks], x_label: str, y_label: str) -> list[str]:
    """Return the axes of a chart of the size of `PLOT`, each with a scale, ticks and a label."""
    left, top, bottom, right = PLOT
    parts = [f'<path class="rule" d="M{left} {top}V{bottom}H{right}"/>']
    y_scale, y_ticks = y_axis
    for tick, text in y_ticks:
        y = y_scale(tick)
        parts.append(f'<path class="rule" d="M{left} {y}H{right}"/>{_text(left - 6, y + 4, text, "small end")}')
    x_scale, x_ticks = x_axis
    parts += _x_ticks(x_ticks, x_scale, bottom)
    parts.append(_text((left + right) / 2, bottom + 34, x_label, "small middle"))
    turned = f'class="small middle" transform="translate(12 {(top + bottom) / 2}) rotate(-90)"'
    return [*parts, f"<text {turned}>{escape(y_label)}</text>"]


def _text(x: float, y: float, text: object, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _short(name: str, n_letters: int = 18) -> str:
    return name if len(name) <= n_letters else name[: n_letters - 1] + "…"


def _label_width(names: Sequence[str]) -> float:
    return 14 + CHARACTER * max((len(_short(name)) for name in names), default=0)
