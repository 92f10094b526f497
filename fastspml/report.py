"""Report: what a model was trained on, what it learned and how well it predicts, on one page that stands by itself.

`facts` computes all numbers into plain lists and dicts; `render` makes the page from them and computes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from fastspml import __version__, plots
from fastspml.baselines import CosineTfidf, Euclid, Popularity
from fastspml.evaluate import LinkQuality, hidden_quality, link_quality, metric_of
from fastspml.leaks import check_leaks
from fastspml.metric import Metric
from fastspml.mtspml import MTSPML
from fastspml.network import Network, as_networks, split_at
from fastspml.plots import escape
from fastspml.scoring import NodeScores, blocks

HITS_AT = 10
TOP_WORDS = 15
SHARED_WORDS = 5  # named where two nodes are compared
LISTED_LINKS = 6  # of a node
SHOWN_NODES = 3  # best and worst predicted of every task
ROC_POINTS = 101
CONVERGENCE_BINS = 100
ROWS_PER_CHART = 20  # of distributions: a chart has to fit on a printed page


def write_report(
    path: str | Path,
    model: Any,
    networks: Network | Sequence[Network],
    config: Mapping[str, Any] | None = None,
    results: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write a report on a model as one HTML page that needs no network access; return the facts it shows.

    Parameters
    ----------
    path : str or Path
        The page. A file that exists is kept unless `overwrite`.
    model : fitted SPML or MTSPML, or a Metric
        The nodes that were hidden when it was trained, as recorded in it, are scored; without any, the page has no AUC.
    networks : Network or list of Network
        All nodes, hidden ones included, as the model takes them.
    config : mapping, optional
        The configuration of the run.
    results : mapping, optional
        AUC of other methods on the same hidden nodes: tasks, and methods with method and auc (one per task). By default
        those that need no training are computed.
    about : mapping, optional
        What else is known of the run: date, seconds, versions; see `about_run`.
    overwrite : bool
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; --overwrite (overwrite=True) replaces it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is no folder; make it before a report is written there.")
    known = facts(model, networks, config, results, about)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(render(known), encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return known


def about_run(path: str | Path) -> dict[str, Any]:
    """Return what a run folder, or a model file, tells besides model and configuration: date, seconds, versions."""
    path = Path(path)
    folder, file = (path, path / "model.h5") if path.is_dir() else (path.parent, path)
    about: dict[str, Any] = {"date": datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "minutes")}
    if path.is_dir() and (folder / "versions.json").exists():
        about["versions"] = json.loads((folder / "versions.json").read_text())
    if path.is_dir() and (folder / "history.jsonl").exists():
        elapsed = [json.loads(line)["elapsed_s"] for line in (folder / "history.jsonl").read_text().splitlines()]
        # The clock starts again where a stopped run goes on: add up where it stood last.
        about["seconds"] = sum(now for now, after in zip(elapsed, [*elapsed[1:], 0.0], strict=True) if after < now)
    return about


# ---- facts ----------------------------------------------------------------------------------------------------------


def facts(
    model: Any,
    networks: Network | Sequence[Network],
    config: Mapping[str, Any] | None = None,
    results: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the numbers of a report as plain lists and dicts; see `write_report` for the arguments."""
    networks = as_networks(networks)
    names = getattr(model, "task_names_", None)
    if names is not None and len(names) != len(networks):
        raise ValueError(
            f"the model was trained on {len(names)} tasks, but {len(networks)} networks came; "
            "report on the networks that it was trained on."
        )
    hidden = getattr(model, "hidden_nodes_", None)
    tasks = [_task_facts(network) for network in networks]
    known: dict[str, Any] = {
        "model": _model_name(model, len(networks)),
        "settings": _settings(model, config),
        "about": dict(about or {}),
        "tasks": tasks,
        "methods": [],
        "remarks": [],
        "convergence": _convergence(model, networks),
        "words": [{"name": name, "words": _top_words(metric)} for name, metric in _learned_metrics(model, networks)],
    }
    if hidden is None:
        return known
    qualities = hidden_quality(model, networks, k=HITS_AT)
    for q, (task, (network, nodes, quality)) in enumerate(zip(tasks, qualities, strict=True)):
        scorer = NodeScores(metric_of(model, q), network)
        order = _by_auc(quality, network.degrees[nodes])
        best, worst = order[:SHOWN_NODES], order[SHOWN_NODES:][-SHOWN_NODES:][::-1]
        task |= {
            "hidden": len(nodes),
            "scored": quality.n_defined,
            "hidden_links": int(network.degrees[nodes].sum()),
            **quality.means(),
            "node_auc": quality.auc[~np.isnan(quality.auc)].tolist(),
            "roc": mean_roc(scorer, network, nodes).tolist(),
            "best": [_node_facts(scorer, network, nodes[k], quality.auc[k]) for k in best],
            "worst": [_node_facts(scorer, network, nodes[k], quality.auc[k]) for k in worst],
        }
    splits = [split_at(network, nodes) for network, nodes, _ in qualities]
    training = [split.train for split in splits]
    known["remarks"] = check_leaks(training, [split.test for split in splits])
    if results is None:
        aucs, refused = _baseline_aucs(training, networks, hidden)
        known["remarks"] += refused
    else:
        aucs = {row["method"]: list(row["auc"]) for row in results["methods"]}
        if any(len(values) != len(networks) for values in aucs.values()):
            raise ValueError(f"results must give every method one AUC per task; there are {len(networks)} tasks.")
    aucs[known["model"]] = [task["auc"] for task in tasks]
    known["methods"] = [{"method": name, "auc": values, "mean": _mean(values)} for name, values in aucs.items()]
    return known


def mean_roc(scorer: NodeScores, network: Network, nodes: np.ndarray) -> np.ndarray:
    """Return the mean over nodes of the share of links found before a share u of the non-links, u = 0, 0.01, ... 1.

    Within a tie links are found evenly, so the area under a node's curve is its AUC. nan if no node has an AUC.
    """
    total, n_curves = np.zeros(ROC_POINTS), 0
    for block in blocks(nodes, network.n_nodes):
        for node, scores in zip(block, scorer.node_scores(block), strict=True):
            is_link, is_other = _links_and_others(network, node)
            links, others = np.sort(scores[is_link]), scores[is_other]
            if len(links) == 0 or len(others) == 0:
                continue
            # How many non-links are nearer than each link, and how many are not farther.
            nearer, not_farther = (
                np.cumsum(np.bincount(np.searchsorted(links, others, side), minlength=len(links) + 1))[:-1, None]
                for side in ("right", "left")
            )
            passed = np.linspace(0.0, len(others), ROC_POINTS)[None, :]
            tied = not_farther - nearer
            found = np.where(tied > 0, (passed - nearer) / np.maximum(tied, 1), passed >= nearer)
            total += np.clip(found, 0.0, 1.0).mean(axis=0)
            n_curves += 1
    return total / n_curves if n_curves else np.full(ROC_POINTS, np.nan)


def _task_facts(network: Network) -> dict[str, Any]:
    return {
        "name": network.name,
        "nodes": network.n_nodes,
        "links": network.n_links,
        "words": len(np.unique(network.features.indices)),
        "words_per_node": network.features.nnz / max(1, network.n_nodes),
    }


def _model_name(model: Any, n_networks: int) -> str:
    if isinstance(model, Metric):
        return "metric"
    return "MT-SPML" if isinstance(model, MTSPML) else "U-SPML" if n_networks > 1 else "SPML"


def _settings(model: Any, config: Mapping[str, Any] | None) -> dict[str, str]:
    params = {} if isinstance(model, Metric) else model.get_params()
    settings = {**(config or {}), **params}
    return {name: str(getattr(value, "kind", value)) for name, value in settings.items()}


def _learned_metrics(model: Any, networks: Sequence[Network]) -> list[tuple[str, Metric]]:
    if isinstance(model, MTSPML):
        return [("common", model.common_metric_), *zip(model.task_names_, model.task_metrics_, strict=True)]
    return [(networks[0].name if len(networks) == 1 else "all tasks", metric_of(model))]


def _top_words(metric: Metric) -> list[dict[str, Any]]:
    return [{"word": _word(f), "weight": float(weight)} for f, weight in metric.top_features(TOP_WORDS) if weight > 0]


def _word(feature: Any) -> str:
    return feature if isinstance(feature, str) else f"feature {feature}"


def _convergence(model: Any, networks: Sequence[Network]) -> dict[str, Any] | None:
    """Return the share of violated triplets in bins of iterations, per task, or of all where they are pooled."""
    if not len(getattr(model, "violations_", ())):
        return None
    violated = model.violations_.reshape(len(model.violations_), -1)
    bins = np.array_split(violated / model.batch_size, min(CONVERGENCE_BINS, len(violated)))
    is_pooled = violated.shape[1] != len(networks)
    names = ["all tasks"] if is_pooled else [network.name for network in networks]
    shares = np.array([part.mean(axis=0) for part in bins]).T
    return {
        "iterations": np.cumsum([len(part) for part in bins]).tolist(),
        "violated": [{"name": name, "share": share.tolist()} for name, share in zip(names, shares, strict=True)],
    }


def _baseline_aucs(
    training: list[Network], networks: Sequence[Network], hidden: Sequence[np.ndarray]
) -> tuple[dict[str, list[float]], list[str]]:
    """Return the AUC per task of what needs no training, and a sentence for each method that refuses these networks."""
    scorers: dict[str, list[Any]] = {}
    refused = []
    for name, baseline in {"Euclid": Euclid("l1"), "cosine tf-idf": CosineTfidf()}.items():
        try:
            scorers[name] = [baseline.fit(training)] * len(networks)
        except ValueError as error:
            refused.append(f"{name} was left out of the comparison: {error}")
    # A task at a time: tasks may have the same name.
    scorers["popularity"] = [Popularity().fit(network) for network in training]
    aucs = {
        name: [link_quality(*case).means()["auc"] for case in zip(per_task, networks, hidden, strict=True)]
        for name, per_task in scorers.items()
    }
    return aucs, refused


def _by_auc(quality: LinkQuality, degrees: np.ndarray) -> np.ndarray:
    """Return positions of the nodes with an AUC, best first; of equal ones, those with more links."""
    order = np.lexsort((-degrees, -quality.auc))
    return order[~np.isnan(quality.auc[order])]


def _links_and_others(network: Network, node: int) -> tuple[np.ndarray, np.ndarray]:
    is_link = np.zeros(network.n_nodes, dtype=bool)
    start, end = network.adjacency.indptr[node : node + 2]
    is_link[network.adjacency.indices[start:end]] = True
    is_other = ~is_link
    is_other[node] = False
    return is_link, is_other


def _node_facts(scorer: NodeScores, network: Network, node: int, auc: float) -> dict[str, Any]:
    """Return where a node's links were ranked, and the words that it shares with the nearest link and non-link."""
    scores = scorer.node_scores(np.array([node]))[0]
    is_link, is_other = _links_and_others(network, node)
    links, others = (np.flatnonzero(mask)[np.argsort(scores[mask], kind="stable")] for mask in (is_link, is_other))

    def compared(other: int) -> dict[str, Any]:
        records = scorer.metric.explain(network.subset([node]), network.subset([other]))
        shared = sorted(records[records.shared > 0], key=lambda record: -record.shared)[:SHARED_WORDS]
        return {
            "node": str(network.nodes[other]),
            "place": 1 + int(np.count_nonzero(scores[is_link | is_other] < scores[other])),
            "shared": [{"word": _word(record.feature), "shared": float(record.shared)} for record in shared],
        }

    return {
        "node": str(network.nodes[node]),
        "auc": float(auc),
        "has_words": bool(scorer.rows.indptr[node] < scorer.rows.indptr[node + 1]),
        "n_links": len(links),
        "links": [str(name) for name in network.nodes[links[:LISTED_LINKS]]],
        "nearest_link": compared(links[0]),
        "nearest_other": compared(others[0]),
    }


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return sum(known) / len(known) if known else float("nan")


# ---- the page -------------------------------------------------------------------------------------------------------

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
    methods, tasks = known["methods"], known["tasks"]
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
    header = ["task", "hidden", "scored", "links", "AUC", "average precision", "reciprocal rank", f"hits@{HITS_AT}"]
    keys = ("name", "hidden", "scored", "hidden_links", "auc", "average_precision", "reciprocal_rank", "hits")
    parts = [
        _figure(chart, "Bar: mean over tasks, from 0.5, which is chance. Mark: one task."),
        _table(["task", *(row["method"] for row in methods)], rows, total),
        f"<h3>More measures of {escape(known['model'])}</h3>",
        '<p class="says">A hidden node is scored if it has a link and a non-link. Reciprocal rank: the mean of 1/rank '
        f"of a node's links, each among its non-links. Hits: the share of links among the first {HITS_AT}.</p>",
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
        share = np.linspace(0.0, 1.0, ROC_POINTS)
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
        "A place is the rank among all other nodes; in brackets stands how much a word takes off the distance."
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
