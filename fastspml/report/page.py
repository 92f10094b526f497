"""The page of a report: HTML made from facts, which computes nothing and needs no network access to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

import numpy as np

from fastspml import __version__
from fastspml.report import plots
from fastspml.report.plots import escape

ROWS_PER_CHART = 20  # of distributions: a chart has to fit on a printed page

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
<header><h1>$title</h1>
<p class="lead">$lead</p></header>
$sections
<footer>Made by fastspml $version.</footer>
</main>
</body>
</html>
""")

PAGE_STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}
main{max-width:62rem;margin:0 auto;padding:1.5rem 1rem 3rem;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.25rem;margin:2.4rem 0 .3rem;padding-top:.6rem;border-top:1px solid var(--rule)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.3rem 0 .8rem;max-width:44rem}
.lead{font-size:1.1rem}
.says,footer,figcaption{color:var(--soft)}
.remarks{padding-left:1.2rem;color:var(--soft);font-size:.88rem;max-width:52rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;margin:.4rem 0 1rem}
th,td{padding:.2rem 0 .2rem 1rem;text-align:right;vertical-align:bottom;unicode-bidi:isolate}
td{white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0;min-width:5.5rem;white-space:normal;overflow-wrap:anywhere}
td{border-top:1px solid var(--rule)}
th{font-weight:600;overflow-wrap:normal}
tr.total td{font-weight:700}
.settings td{text-align:left;white-space:normal}
svg{display:block;width:100%;height:auto}
figure{margin:.4rem 0 1rem;max-width:38rem}
figcaption{font-size:.88rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:.4rem 2rem}
.pair figure{max-width:30rem}
.words{display:grid;grid-template-columns:repeat(auto-fill,minmax(11.5rem,1fr));gap:0 1.6rem}
.words table{width:100%}
.node{border-left:3px solid var(--rule);padding:.05rem 0 .05rem .8rem;margin:0 0 .9rem;font-size:.88rem}
.node.best{border-color:var(--c0)}
.node.worst{border-color:var(--c1);border-left-style:dashed}
.node p{margin:.1rem 0}
bdi{font-weight:600}
@media print{
@page{margin:15mm}
html{font-size:9.5pt}
main{max-width:none;padding:0}
h2,h3,.says{break-after:avoid}
p,figure,.node,.scroll,section section{break-inside:avoid}
.scroll{overflow:visible}
.pair{grid-template-columns:1fr 1fr}
}
"""


def render(known: Mapping[str, Any]) -> str:
    """Return the page that shows the facts of a report."""
    tasks = known["tasks"]
    subject = f"{len(tasks)} tasks" if len(tasks) > 1 else tasks[0]["name"]
    sections = [_data_section(known), *_quality_sections(known), _training_section(known), _words_section(known)]
    sections += _similar_section(known)
    return PAGE.substitute(
        title=escape(f"{known['model']} on {subject}"),
        style=plots.page_style() + PAGE_STYLE,
        lead=escape(_lead(known)),
        sections="\n".join([*sections, *_nodes_section(known), _settings_section(known)]),
        version=escape(__version__),
    )


def _lead(known: Mapping[str, Any]) -> str:
    if not known["methods"]:
        return (
            "The model records no nodes that were hidden when it was trained, so this page cannot tell how well it "
            "predicts the links of nodes never seen before. Train with test_size to learn that."
        )
    *others, ours = sorted(known["methods"], key=lambda row: row["method"] == known["model"])
    n_hidden = sum(task["hidden"] for task in known["tasks"])
    if np.isnan(ours["mean"]):
        return f"{n_hidden:,} nodes were hidden, but none has both a link and a non-link, so none can be scored."
    lead = (
        f"The links of {n_hidden:,} hidden nodes were predicted from their words alone. A link was ranked before a "
        f"non-link in {ours['mean']:.1%} of the cases, on average (mean AUC {ours['mean']:.3f}; guessing gives 0.5)"
    )
    best = max(others, key=lambda row: -1.0 if np.isnan(row["mean"]) else row["mean"], default=None)
    return lead + (f"; the best of the other methods, {best['method']}, comes to {best['mean']:.3f}." if best else ".")


def _data_section(known: Mapping[str, Any]) -> str:
    header = ["task", "nodes", "of them hidden", "links", "different words", "words a node"]
    keys = ("name", "nodes", "hidden", "links", "words")
    rows = [[*(task.get(key, 0) for key in keys), f"{task['words_per_node']:.1f}"] for task in known["tasks"]]
    says = "Hidden nodes took no part in training, nor did their links. A link that runs both ways is counted twice."
    return _section("What was trained on", says, _table(header, rows))


def _quality_sections(known: Mapping[str, Any]) -> list[str]:
    methods, tasks, k = known["methods"], known["tasks"], known["hits_at"]
    if not methods:
        return []
    names = [task["name"] for task in tasks]
    title = "AUC of the links of hidden nodes, by method"
    chart = plots.by_method(
        [(row["method"], row["auc"]) for row in methods], names, title, "AUC of the links of hidden nodes",
        ours=[row["method"] for row in methods if row["method"].endswith("SPML")],
    )  # fmt: skip
    rows = [[name, *(row["auc"][q] for row in methods)] for q, name in enumerate(names)]
    total = ["mean", *(row["mean"] for row in methods)] if len(names) > 1 else None
    header = [
        "task",
        "hidden",
        "scored",
        "links",
        "AUC",
        "average precision",
        "reciprocal rank",
        f"hits@{k}",
    ]
    keys = ("name", "hidden", "scored", "hidden_links", "auc", "average_precision", "reciprocal_rank", "hits")
    parts = [
        _figure(chart, "Bar: mean over tasks, from 0.5, which is chance. Mark: one task."),
        _table(["task", *(row["method"] for row in methods)], rows, total),
        f"<h3>More measures of {escape(known['model'])}</h3>",
        '<p class="says">A hidden node is scored if it has a link and a non-link. Reciprocal rank: the mean of 1/rank '
        f"of a node's links, each among its non-links. Hits: the share of links among the first {k}.</p>",
        _table(header, [[task[key] for key in keys] for task in tasks]),
    ]
    if known["remarks"]:
        remarks = "".join(f"<li>{escape(text)}</li>" for text in known["remarks"])
        parts += [
            '<p class="says">Worth knowing before trusting the figures:</p>',
            f'<ul class="remarks">{remarks}</ul>',
        ]
    says = "AUC is the chance that a link of a hidden node is ranked before a non-link; 1 is perfect, 0.5 is guessing."
    charts = [
        plots.distributions(
            [(task["name"], np.array(task["node_auc"])) for task in tasks[start : start + ROWS_PER_CHART]],
            "Hidden nodes by AUC, per task", "AUC of a hidden node",
        )
        for start in range(0, len(tasks), ROWS_PER_CHART)
    ]  # fmt: skip
    return [
        _section("How well links of hidden nodes are predicted", says, *parts),
        _section(
            "Node by node",
            "How many hidden nodes of a task have which AUC; the upright line is the median. Nodes to the left of 0.5 "
            "are predicted worse than by guessing.",
            *(_figure(chart) for chart in charts),
        ),
    ]


def _training_section(known: Mapping[str, Any]) -> str:
    figures = []
    rocs = [(task["name"], task["roc"]) for task in known["tasks"] if not np.isnan(task.get("roc", [np.nan])[0])]
    if rocs:
        share = np.linspace(0.0, 1.0, len(rocs[0][1]))
        curves = [(name, share, np.array(roc)) for name, roc in rocs]
        chart = plots.lines(
            _told_apart(curves), "Mean ROC of hidden nodes", "share of non-links passed", "share of links found",
            diagonal=True,
        )  # fmt: skip
        says = "ROC, the mean over hidden nodes: links found while going down the list; dotted is guessing."
        figures.append(_figure(chart, says))
    convergence = known["convergence"]
    if convergence:
        iterations = convergence["iterations"]
        curves = [(row["name"], iterations, np.array(row["share"])) for row in convergence["violated"]]
        highest = max(float(max(y)) for _, _, y in curves)
        chart = plots.lines(
            _told_apart(curves), "Share of violated triplets during training", "iteration", "share violated",
            x_range=(0, iterations[-1]), y_range=(0.0, min(1.0, highest * 1.05) or 1.0),
        )  # fmt: skip
        says = "Convergence: drawn triplets whose link was not nearer than the non-link by the margin."
        figures.append(_figure(chart, f"{says} Once level, more iterations change little."))
    if not figures:
        return ""
    return _section("ROC and convergence" if rocs else "Convergence", "", f'<div class="pair">{"".join(figures)}</div>')


def _told_apart(curves: list[tuple[str, Any, np.ndarray]]) -> list[tuple[str | None, Any, np.ndarray]]:
    """Return the curves, or, of more than can be told apart, their mean before all of them without names."""
    if len(curves) <= plots.N_STYLES:
        return list(curves)
    mean = ("mean of tasks", curves[0][1], np.mean([y for _, _, y in curves], axis=0))
    return [*((None, x, y) for _, x, y in curves), mean]


def _words_section(known: Mapping[str, Any]) -> str:
    tables = []
    for part in known["words"]:
        rows = [[word["word"], f"{word['weight']:#.3g}".rstrip(".")] for word in part["words"]]
        tables.append(_table([part["name"], "weight"], rows or [["no weight above zero", ""]]))
    says = "Sharing a word with a large weight brings two nodes near. "
    if len(known["words"]) > 1:
        says += "What holds in all tasks is in the common weights, which start at 1; a task adds its own, from 0."
    return _section("The words that matter", says, f'<div class="words">{"".join(tables)}</div>')


def _similar_section(known: Mapping[str, Any]) -> list[str]:
    rows = [[part["word"], ", ".join(part["similar"])] for part in known.get("similar", [])]
    says = "The words with the largest weights, each with the words that link nodes nearly as well as itself would."
    table = f'<div class="settings">{_table(["word", "similar words"], rows)}</div>'
    return [_section("Words that the model treats as similar", says, table)] if rows else []


def _nodes_section(known: Mapping[str, Any]) -> list[str]:
    parts = []
    for task in known["tasks"]:
        if task.get("best"):
            best, worst = ("".join(_node(node, kind) for node in task[kind]) for kind in ("best", "worst"))
            pair = f'<div class="pair"><div>{best}</div><div>{worst}</div></div>'
            parts.append(f"<section><h3>{escape(task['name'])}</h3>{pair}</section>")
    says = (
        "Hidden nodes with the highest (full line) and the lowest AUC (dashed line), and the words they have in common "
        "with the nearest true link; for the worst also with the nearest node that is no link: the words that misled. "
        "A place is the rank among all other nodes; in brackets is how much a word, or a word of one node with a word "
        "of the other, takes off the distance."
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
        parts.append(_compared("Nearest that is no link", node["nearest_other"]))
        if not node["nearest_other"]["shared"]:
            parts[-1] += ", but its own words weigh little, which makes it near to all"
    if not node["has_words"]:
        parts.append("It has no words that training knew, so nothing tells its links.")
    return f'<div class="node {kind}">' + "".join(f"<p>{part}</p>" for part in parts) + "</div>"


def _compared(what: str, other: Mapping[str, Any]) -> str:
    words = ", ".join(f"{word['word']} ({word['shared']:.2g})" for word in other["shared"])
    shared = f"shared: {escape(words)}" if words else "no shared word that counts"
    return f"{what}: <bdi>{escape(other['node'])}</bdi>, place {other['place']:,}; {shared}"


def _settings_section(known: Mapping[str, Any]) -> str:
    about = dict(known["about"])
    rows = [[name, value] for name, value in known["settings"].items()]
    rows += [["model written", about["date"]]] if "date" in about else []
    rows += [["seconds of training", f"{about['seconds']:,.1f}"]] if "seconds" in about else []
    rows += [[f"version of {name}", value] for name, value in about.get("versions", {}).items()]
    if not rows:
        return ""
    says = "What it takes, besides the networks, to train the same metric again."
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
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if np.isnan(value) else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
