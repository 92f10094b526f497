"""The page of a report: HTML made from facts. It computes nothing, and the page needs no network access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastspml import __version__
from fastspml.report import plots
from fastspml.report.comparison import explain_method
from fastspml.report.plots import escape
from fastspml.report.template import PAGE, PAGE_STYLE

ROWS_PER_CHART = 20  # so that a chart of distributions fits on a printed page


def render(known: Mapping[str, Any]) -> str:
    """Return the page that shows the facts of a report."""
    sections = [_data_section(known), *_quality_sections(known), _training_section(known), _words_section(known)]
    sections += [*_similar_section(known), *_probabilities_section(known)]
    return PAGE.substitute(
        title=escape(_title(known)),
        style=plots.page_style() + PAGE_STYLE,
        lead=escape(_lead(known)),
        sections="\n".join([*sections, *_nodes_section(known), _settings_section(known)]),
        version=escape(__version__),
    )


def _title(known: Mapping[str, Any]) -> str:
    """Return the name of the model and of the data set, if that is known."""
    names, data_set = [task["name"] for task in known["tasks"]], known.get("data_set")
    subject = names[0] if len(names) == 1 else f"{len(names)} tasks"
    if data_set and data_set != subject:
        subject = f"{data_set}, {subject}"
    name, _, form = known["model"].partition(", ")
    return f"{f'{form.capitalize()} {name}' if form else name} on {subject}"


def _lead(known: Mapping[str, Any]) -> str:
    if not known["methods"]:
        return (
            "No nodes were hidden when this model was trained, so this page cannot say how well it predicts the links "
            "of unseen nodes. Train with test_size to measure that."
        )
    *others, ours = sorted(known["methods"], key=lambda row: row["method"] == known["model"])
    n_hidden = sum(task["hidden"] for task in known["tasks"])
    if np.isnan(ours["mean"]):
        return f"{n_hidden:,} nodes were hidden, but none has both a link and a non-link, so none can be scored."
    lead = (
        f"The links of {n_hidden:,} hidden nodes were predicted from their words alone. On average, a link was ranked "
        f"before a non-link in {ours['mean']:.1%} of the cases (mean AUC {ours['mean']:.3f}; guessing gives 0.5)."
    )
    best = max(others, key=lambda row: -1.0 if np.isnan(row["mean"]) else row["mean"], default=None)
    return lead + (f" The best of the other methods, {best['method']}, has {best['mean']:.3f}." if best else "")


def _data_section(known: Mapping[str, Any]) -> str:
    header = ["task", "nodes", "hidden", "links", "different words", "words per node"]
    keys = ("name", "nodes", "hidden", "links", "words")
    rows = [[*(task.get(key, 0) for key in keys), f"{task['words_per_node']:.1f}"] for task in known["tasks"]]
    says = "A link that runs both ways is counted twice."
    if any(task.get("hidden") for task in known["tasks"]):
        says = f"Hidden nodes and their links took no part in training. {says}"
    return _section("The networks", says, _table(header, rows))


def _quality_sections(known: Mapping[str, Any]) -> list[str]:
    if not known["methods"]:
        return []
    parts = [_methods_chart(known), _methods_table(known), _tasks_table(known), _measures_table(known)]
    if known["remarks"]:
        remarks = "".join(f"<li>{escape(text)}</li>" for text in known["remarks"])
        parts += [
            '<p class="says">Worth knowing before trusting the figures:</p>',
            f'<ul class="remarks">{remarks}</ul>',
        ]
    says = (
        "AUC: the probability that a link of a hidden node is ranked before a non-link; 1 is perfect, 0.5 is guessing."
    )
    return [
        _section("How well links of hidden nodes are predicted", says, *parts),
        _section(
            "Node by node",
            "The distribution of the AUC of hidden nodes, by task; the vertical line is the median. Nodes to the left "
            "of 0.5 are predicted worse than by guessing.",
            *_distributions(known["tasks"]),
        ),
    ]


def _methods_chart(known: Mapping[str, Any]) -> str:
    methods, names = known["methods"], [task["name"] for task in known["tasks"]]
    chart = plots.by_method(
        [(row["method"], row["auc"]) for row in methods], names,
        "AUC of the links of hidden nodes, by method", "AUC of the links of hidden nodes",
        ours=[row["method"] for row in methods if "SPML" in row["method"]],
    )  # fmt: skip
    caption = "Bar: mean AUC, from 0.5, which is chance."
    if len(names) > 1:
        caption += " Line: from the lowest to the highest task."
    return _figure(chart, caption)


def _tasks_table(known: Mapping[str, Any]) -> str:
    """Return the AUC of every method by task; of several tasks, with a heading and the means."""
    methods, tasks = known["methods"], known["tasks"]
    header = ["task", *(row["method"] for row in methods)]
    rows = [[task["name"], *(row["auc"][q] for row in methods)] for q, task in enumerate(tasks)]
    if len(tasks) == 1:
        return _table(header, rows)
    return "<h3>AUC by task</h3>" + _table(header, rows, total=["mean", *(row["mean"] for row in methods)])


def _measures_table(known: Mapping[str, Any]) -> str:
    k = known["hits_at"]
    header = ["task", "hidden", "scored", "links", "AUC", "average precision", "reciprocal rank", f"hits@{k}"]
    keys = ("name", "hidden", "scored", "hidden_links", "auc", "average_precision", "reciprocal_rank", "hits")
    return (
        f"<h3>More measures of {escape(known['model'])}</h3>"
        '<p class="says">A hidden node is scored if it has a link and a non-link. Reciprocal rank: the mean of 1/rank '
        f"of a node's links, each ranked among its non-links. Hits: the share of links with fewer than {k} "
        "non-links above them.</p>" + _table(header, [[task[key] for key in keys] for task in known["tasks"]])
    )


def _distributions(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    figures = []
    for start in range(0, len(tasks), ROWS_PER_CHART):
        rows = [(task["name"], np.array(task["node_auc"])) for task in tasks[start : start + ROWS_PER_CHART]]
        figures.append(_figure(plots.distributions(rows, "Hidden nodes by AUC, per task", "AUC of a hidden node")))
    return figures


def _methods_table(known: Mapping[str, Any]) -> str:
    """Return a row for each method: a description, its mean AUC, and by how much the model is better."""
    rows = []
    for row in known["methods"]:
        difference, error = row.get("difference"), row.get("difference_error")
        lead = "-" if difference is None or np.isnan(difference) else f"{difference:+.3f}"
        if lead != "-" and error is not None and not np.isnan(error):
            lead += f" ± {error:.3f}"
        if row["method"] == known["model"]:
            lead = "-"
        rows.append([row["method"], row["mean"], lead])
    says = (
        f'<p class="says">Lead: the mean AUC of {escape(known["model"])} minus that of the method, with the standard '
        "error of the difference, which is taken node by node on the same hidden nodes. A lead below twice its error "
        "may be chance.</p>"
    )
    explained = [(row["method"], explain_method(row["method"])) for row in known["methods"]]
    meanings = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in explained if text)
    return says + _table(["method", "mean AUC", "lead"], rows) + (f"<dl>{meanings}</dl>" if meanings else "")


def _training_section(known: Mapping[str, Any]) -> str:
    figures = []
    scored = [task for task in known["tasks"] if not np.isnan(task.get("roc", [np.nan])[0])]
    if scored:
        chart = plots.lines(
            _roc_curves(scored), "Mean ROC of hidden nodes", "share of non-links passed", "share of links found",
            diagonal=True,
        )  # fmt: skip
        says = "ROC, the mean over hidden nodes: the share of links found when going down the list."
        figures.append(_figure(chart, f"{says} The thin dashed diagonal is guessing."))
    convergence = known["convergence"]
    if convergence:
        iterations = convergence["iterations"]
        shares = np.array([row["share"] for row in convergence["violated"]])
        name = convergence["violated"][0]["name"] if len(shares) == 1 else "mean of tasks"
        chart = plots.lines(
            [(name, iterations, shares.mean(axis=0))], "Share of violated triplets during training", "iteration",
            "share violated", x_range=(0, iterations[-1]), y_range=(0.0, min(1.0, float(shares.max()) * 1.05) or 1.0),
            band=(iterations, shares.min(axis=0), shares.max(axis=0)) if len(shares) > 1 else None,
        )  # fmt: skip
        says = "Convergence: the share of drawn triplets whose link is not nearer than the non-link by the margin."
        says += " The band has all tasks." if len(shares) > 1 else ""
        figures.append(_figure(chart, f"{says} It need not reach 0; once it is level, more iterations change little."))
    if not figures:
        return ""
    title = "ROC and convergence" if scored else "Convergence"
    return _section(title, "", f'<div class="pair">{"".join(figures)}</div>')


def _roc_curves(tasks: Sequence[Mapping[str, Any]]) -> list[tuple[str | None, Any, np.ndarray]]:
    """Return the curves of the tasks with the highest and lowest AUC, and the mean of all tasks."""
    share = np.linspace(0.0, 1.0, len(tasks[0]["roc"]))
    ranked = sorted(tasks, key=lambda task: -task["auc"])

    def curve(task: Mapping[str, Any]) -> tuple[str, Any, np.ndarray]:
        return f"{task['name']} (AUC {task['auc']:.3f})", share, np.array(task["roc"])

    if len(tasks) < 3:
        return [curve(task) for task in ranked]
    mean = ("mean of tasks", share, np.mean([task["roc"] for task in tasks], axis=0))
    return [curve(ranked[0]), mean, curve(ranked[-1])]


def _words_section(known: Mapping[str, Any]) -> str:
    tables = []
    for part in known["words"]:
        rows = [[word["word"], f"{word['weight']:#.3g}".rstrip(".")] for word in part["words"]]
        tables.append(_table([part["name"], "weight"], rows or [["no weight above zero", ""]]))
    says = "Two nodes that share a word with a large weight are near. "
    if len(known["words"]) > 1:
        says += "Common weights apply to all tasks and are pulled to 1; each task adds its own, which are pulled to 0."
    return _section("The words that matter", says, f'<div class="words">{"".join(tables)}</div>')


def _similar_section(known: Mapping[str, Any]) -> list[str]:
    rows = [[part["word"], ", ".join(part["similar"])] for part in known.get("similar", [])]
    says = "The words with the largest weights, each with the words that the model treats as most similar to it."
    table = f'<div class="settings">{_table(["word", "similar words"], rows)}</div>'
    return [_section("Words that the model treats as similar", says, table)] if rows else []


def _probabilities_section(known: Mapping[str, Any]) -> list[str]:
    tasks = known.get("probabilities", [])
    header = ["task", "kind", "ECE", "ECE by links", "ECE, hidden", "by links, hidden", "error of link count"]
    keys = ("name", "kind", "ece", "link_ece", "hidden_ece", "hidden_link_ece", "n_links_error")
    rows = [[_share(task[key]) if "ece" in key else task[key] for key in keys] for task in tasks]
    parts = [_table(header, rows)]
    for task in tasks:
        curve = [[_share(predicted), _share(observed), int(pairs)] for predicted, observed, pairs in task["curve"]]
        deciles = [[expected, found, int(nodes)] for expected, found, nodes in task["deciles"]]
        halves = [
            _figure(_agreement(task, "curve", "share of links", "predicted", "observed", logarithmic=True))
            + _table(["predicted share", "observed share", "pairs"], curve)
        ]
        if deciles:
            halves.append(
                _figure(_agreement(task, "deciles", "links", "expected", "found"))
                + _table(["expected links", "found links", "nodes"], deciles)
            )
        pair = "".join(f"<div>{half}</div>" for half in halves)
        parts.append(f'<section><h3>{escape(task["name"])}</h3><div class="pair">{pair}</div></section>')
    says = (
        "A probability is the share of pairs of a node and a candidate with such a score that are links; it refers to "
        "these candidates and this density of links. ECE, the expected calibration error, is the mean difference "
        "between predicted and observed shares over all pairs or, by links, over all expected links. Below, pairs in "
        "groups of equal sums of probabilities, on logarithmic axes, and hidden nodes in ten groups by their expected "
        "number of links. Dots on the dotted line are exactly right; dots below it are too optimistic."
    )
    return [_section("Probabilities of links", says, *parts)] if tasks else []


def _agreement(
    task: Mapping[str, Any], key: str, noun: str, predicted: str, observed: str, logarithmic: bool = False
) -> str:
    """Return the chart of predicted and observed values of the groups of a calibrated task."""
    points = [(row[0], row[1]) for row in task[key]]
    title = f"{predicted.capitalize()} and {observed} {noun} of {task['name']}"
    return plots.agreement(points, title, f"{predicted} {noun}", f"{observed} {noun}", logarithmic)


def _nodes_section(known: Mapping[str, Any]) -> list[str]:
    parts = []
    for task in known["tasks"]:
        if task.get("best"):
            best, worst = ("".join(_node(node, kind) for node in task[kind]) for kind in ("best", "worst"))
            pair = f'<div class="pair"><div>{best}</div><div>{worst}</div></div>'
            parts.append(f"<section><h3>{escape(task['name'])}</h3>{pair}</section>")
    says = (
        "Hidden nodes with the highest AUC (solid line) and the lowest (dashed line). Each is compared with its "
        "nearest true link, by the words, or pairs of words, that bring them together; the worst also with the "
        "nearest non-link. A place is the rank among all other nodes. In brackets: by how much a word, or a word of "
        "one node with a word of the other, reduces the distance."
    )
    return [_section("Best and worst predicted nodes", says, *parts)] if parts else []


def _node(node: Mapping[str, Any], kind: str) -> str:
    more = ", ..." if node["n_links"] > len(node["links"]) else ""
    noun = "link" if node["n_links"] == 1 else "links"
    parts = [
        f"<bdi>{escape(node['node'])}</bdi>, {kind}: AUC {node['auc']:.3f}, "
        f"{node['n_links']:,} {noun}: {escape(', '.join(node['links']))}{more}",
        _compared("Nearest true link", node["nearest_link"]),
    ]
    if kind == "worst":
        parts.append(_compared("Nearest non-link", node["nearest_other"]))
        if not node["nearest_other"]["shared"]:
            parts[-1] += ", but its words have small weights, so it is near to all nodes"
    if not node["has_words"]:
        parts.append("It has no words that occur in training, so its links cannot be predicted.")
    return f'<div class="node {kind}">' + "".join(f"<p>{part}</p>" for part in parts) + "</div>"


def _compared(what: str, other: Mapping[str, Any]) -> str:
    words = ", ".join(f"{word['word']} ({word['shared']:.2g})" for word in other["shared"])
    shared = f"because of: {escape(words)}" if words else "no words bring them together"
    return f"{what}: <bdi>{escape(other['node'])}</bdi>, place {other['place']:,}; {shared}"


def _settings_section(known: Mapping[str, Any]) -> str:
    about = dict(known["about"])
    rows = [[name, value] for name, value in known["settings"].items()]
    rows += [["model written", about["date"]]] if "date" in about else []
    rows += [["seconds of training", f"{about['seconds']:,.1f}"]] if "seconds" in about else []
    rows += [[f"version of {name}", value] for name, value in about.get("versions", {}).items()]
    if not rows:
        return ""
    says = "With these and the same networks, training gives the same metric."
    return _section("Settings", says, f'<div class="settings">{_table(["", ""], rows)}</div>')


# ---- markup ---------------------------------------------------------------------------------------------------------


def _section(title: str, says: str, *parts: str) -> str:
    sentence = f'<p class="says">{escape(says)}</p>' if says else ""
    return f"<section><h2>{escape(title)}</h2>{sentence}{''.join(parts)}</section>"


def _figure(chart: str, caption: str = "") -> str:
    return f"<figure>{chart}{f'<figcaption>{escape(caption)}</figcaption>' if caption else ''}</figure>"


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]], total: Sequence[Any] | None = None) -> str:
    def line(cells: Sequence[Any], tag: str, kind: str = "") -> str:
        return f"<tr{kind}>" + "".join(f"<{tag}>{escape(_cell(cell))}</{tag}>" for cell in cells) + "</tr>"

    head = f"<thead>{line(header, 'th')}</thead>" if any(header) else ""
    body = "".join(line(row, "td") for row in rows) + (line(total, "td", ' class="total"') if total else "")
    return f'<div class="scroll numbers"><table>{head}<tbody>{body}</tbody></table></div>'


def _share(value: float) -> str:
    """Return a share or an error, which are often small, with four digits."""
    return "-" if np.isnan(value) else f"{value:.4f}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if np.isnan(value) else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
