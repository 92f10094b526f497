"""Charts as small SVG drawings: nothing to install, and colours that follow the page in light, in dark and on paper.

Every function returns an `<svg>` for a page that defines `page_style()`; `standalone` makes a file of its own from it.
What colours tell apart, dashes or marks tell apart too.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

LIGHT = {
    "paper": "#ffffff", "ink": "#1d2126", "soft": "#59626d", "rule": "#d9dde3", "bar": "#c5ccd6", "ours": "#86a5d3",
    "c0": "#1f5fa8", "c1": "#c2500a", "c2": "#0c7d5c", "c3": "#a8437f", "c4": "#7d6500", "c5": "#2a8fbd",
    "c6": "#6b4fa0", "c7": "#5a5f66",
}  # fmt: skip
DARK = {
    "paper": "#16191d", "ink": "#e6e9ed", "soft": "#a0a9b4", "rule": "#363c44", "bar": "#4a525d", "ours": "#47699c",
    "c0": "#6fb1f5", "c1": "#f79a5a", "c2": "#43c79c", "c3": "#eb92c6", "c4": "#d9bd45", "c5": "#7fd0ee",
    "c6": "#b9a0ea", "c7": "#b4bac2",
}  # fmt: skip

N_STYLES = 8  # series that can be told apart; more are drawn alike
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 2", "14 3 2 3 2 3")
# Marks around (0, 0), in the same order.
MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-3.5-3.5h7v7h-7z", "M0-4.6L4.4 3.4H-4.4z", "M0-5L5 0L0 5L-5 0z",
    "M0 4.6L4.4-3.4H-4.4z", "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z", "M-5-2H5V2H-5z",
    "M-4.5-4.5L0-1.5L4.5-4.5L1.5 0L4.5 4.5L0 1.5L-4.5 4.5L-1.5 0z",
)  # fmt: skip

CHART_STYLE = "".join(
    [
        "svg text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--ink)}",
        "svg .small{font-size:11px;fill:var(--soft)}svg .end{text-anchor:end}svg .middle{text-anchor:middle}",
        "svg .rule{stroke:var(--rule);fill:none}svg .chance{stroke:var(--soft);fill:none;stroke-dasharray:3 3}",
        "svg .bar{fill:var(--bar)}svg .ours{fill:var(--ours)}svg .mark{fill:var(--paper);stroke:var(--ink)}",
        "svg .median{stroke:var(--ink);stroke-width:2}svg .line{fill:none;stroke-width:1.8}",
        "svg .faint{fill:none;stroke:var(--soft);stroke-opacity:.35}",
        *(f"svg .s{k}{{stroke:var(--c{k});stroke-dasharray:{DASHES[k] or 'none'}}}" for k in range(N_STYLES)),
    ]
)

WIDTH = 480
NARROW = 380  # of charts that stand side by side
CHARACTER = 6.6  # width of a letter, about: drawings are made without a browser to measure text
BINS = 20


def escape(value: object) -> str:
    """Return text that stands for itself in HTML and XML; characters that XML does not have are replaced."""
    return html.escape(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", str(value)))


def page_style() -> str:
    """Return the CSS that charts need: colours for light and dark screens, light ones for paper."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in colours.items()) for colours in (LIGHT, DARK))
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}{CHART_STYLE}"
    )


def standalone(svg: str) -> str:
    """Return a chart as a file of its own: light colours on white, without variables, which not every viewer knows."""
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
) -> str:
    """Draw (name, x, y) as lines; those without a name are faint and stand in no legend."""
    left, top, bottom, right = 46, 10, 240, NARROW - 26
    x_scale, y_scale = _scale(x_range, left, right), _scale(y_range, bottom, top)
    parts = [f'<path class="rule" d="M{left} {top}V{bottom}H{right}"/>']
    for tick in _ticks(*y_range):
        y = y_scale(tick)
        parts.append(f'<path class="rule" d="M{left} {y}H{right}"/>{_text(left - 6, y + 4, f"{tick:g}", "small end")}')
    parts += _x_ticks(x_range, x_scale, bottom)
    parts.append(_text((left + right) / 2, bottom + 34, x_label, "small middle"))
    turned = f'class="small middle" transform="translate(12 {(top + bottom) / 2}) rotate(-90)"'
    parts.append(f"<text {turned}>{escape(y_label)}</text>")
    if diagonal:
        parts.append(f'<path class="chance" d="M{left} {bottom}L{right} {top}"/>')
    legend: list[tuple[str, str]] = []
    for name, *points in series:
        places = " ".join(f"{x_scale(x)},{y_scale(y)}" for x, y in zip(*points, strict=True) if np.isfinite(y))
        style = "faint" if name is None else f"line s{len(legend) % N_STYLES}"
        parts.append(f'<polyline class="{style}" points="{places}"/>')
        if name is not None:
            legend.append((name, f'<path class="{style}" d="M-11 0h22"/>'))
    drawn, height = _legend(legend, bottom + 54, NARROW)
    return _svg(parts + drawn, height, title, NARROW)


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
    parts += _x_ticks((0.0, 1.0), scale, bottom)
    parts.append(_text((left + right) / 2, bottom + 34, x_label, "small middle"))
    return _svg(parts, bottom + 42, title, WIDTH)


def by_method(
    rows: Sequence[tuple[str, Sequence[float]]],
    tasks: Sequence[str],
    title: str,
    x_label: str,
    ours: Sequence[str] = (),
) -> str:
    """Draw the values of each (method, value per task): a bar from chance to their mean, and a mark per task.

    nan is a task without a value. The methods called `ours` are coloured.
    """
    row_height, top = 30, 6
    left, right = _label_width([name for name, _ in rows]), WIDTH - 52
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
        for task, value in enumerate(values):
            if np.isfinite(value):
                parts.append(
                    f'<path class="mark" transform="translate({scale(value)} {middle})" d="{_mark(task, len(tasks))}"/>'
                )
        parts.append(_text(right + 10, middle + 4, f"{mean:.3f}"))
    parts.append(f'<path class="chance" d="M{scale(0.5)} {top}V{bottom}"/>')
    parts += _x_ticks(x_range, scale, bottom)
    parts.append(_text((left + right) / 2, bottom + 34, x_label, "small middle"))
    legend = [(name, f'<path class="mark" d="{_mark(task, len(tasks))}"/>') for task, name in enumerate(tasks)]
    drawn, height = _legend(legend if 1 < len(tasks) <= N_STYLES else [], bottom + 54, WIDTH)
    return _svg(parts + drawn, height, title, WIDTH)


# ---- parts of a chart -----------------------------------------------------------------------------------------------


def _svg(parts: Sequence[str], height: float, title: str, width: float) -> str:
    inner = "".join(parts)
    return f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(title)}">{inner}</svg>'


def _scale(values: tuple[float, float], start: float, end: float) -> Callable[[float], float]:
    """Return the function from values to places on the drawing."""
    low, high = values
    return lambda value: round(float(start + (value - low) / ((high - low) or 1.0) * (end - start)), 1)


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers from low to high."""
    raw = (high - low) / 5 or 1.0
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999) * power
    first = np.ceil(low / step - 1e-9)
    return [float(round(k * step, 10)) + 0.0 for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def _x_ticks(x_range: tuple[float, float], scale: Callable[[float], float], bottom: float) -> list[str]:
    labels = [(scale(tick), f"{tick:,.10g}") for tick in _ticks(*x_range)]
    return [
        f'<path class="rule" d="M{x} {bottom}v4"/>{_text(x, bottom + 17, text, "small middle")}' for x, text in labels
    ]


def _text(x: float, y: float, text: object, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _short(name: str, n_letters: int = 18) -> str:
    return name if len(name) <= n_letters else name[: n_letters - 1] + "…"


def _label_width(names: Sequence[str]) -> float:
    return 14 + CHARACTER * max((len(_short(name)) for name in names), default=0)


def _mark(task: int, n_tasks: int) -> str:
    return MARKS[task] if n_tasks <= N_STYLES else "M0-6V6"


def _legend(entries: Sequence[tuple[str, str]], y: float, right: float) -> tuple[list[str], float]:
    """Return names beside their symbols, drawn in lines as wide as the chart, and where they end."""
    drawn, x = [], 20.0
    for name, symbol in entries:
        width = 34 + CHARACTER * len(_short(name))
        if x + width > right and x > 20:
            x, y = 20.0, y + 18
        drawn.append(f'<g transform="translate({x:g} {y:g})">{symbol}{_text(16, 4, _short(name), "small")}</g>')
        x += width
    return drawn, y + (10 if entries else -12)
