"""Report: what a model was trained on, what it learned and how well it predicts, on one self-contained page.

`facts` computes all numbers into plain lists and dicts; `page.render` makes the page from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fastspml.baselines import CosineTfidf, Euclid, Popularity
from fastspml.leaks import check_leaks
from fastspml.metric import FactoredMetric, Metric
from fastspml.network import Network
from fastspml.network_lists import Networks, as_networks
from fastspml.ranking.hidden_calibration import hidden_calibration
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.measures import LinkQuality, hidden_quality, link_quality, mean_over_tasks
from fastspml.ranking.model_metrics import learned_metrics, metric_of
from fastspml.ranking.model_records import calibrations_of, hidden_nodes_of
from fastspml.ranking.parallel import blocks
from fastspml.ranking.scores import NodeScores
from fastspml.report.comparison import paired_difference
from fastspml.report.page import render
from fastspml.runs.folder import read_versions
from fastspml.runs.history import read_history
from fastspml.sparse.csr import row_columns
from fastspml.splits import split_at
from fastspml.text_files import write_whole_text
from fastspml.training.mtspml import MTSPML

HITS_AT = 10
TOP_WORDS = 15
SIMILAR_WORDS = 12  # of a factored metric, shown with similar ones
SHARED_WORDS = 5  # named where two nodes are compared
LISTED_LINKS = 6  # of a node
SHOWN_NODES = 3  # best and worst predicted of every task
ROC_POINTS = 101
CONVERGENCE_BINS = 100


def write_report(
    path: str | Path,
    model: Any,
    networks: Networks,
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
        AUC of other methods on the same hidden nodes: ``methods``, a list of mappings with ``method``, ``auc`` (one
        per task) and, optionally, ``difference`` and ``difference_error``; see `paired_difference`. By default, methods
        without training are evaluated.
    about : mapping, optional
        What else is known of the run: data_set, date, seconds, versions; see `about_run`.
    overwrite : bool, default False
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; --overwrite (overwrite=True) replaces it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder; create it before writing a report there.")
    known = facts(model, networks, config, results, about)
    write_whole_text(path, render(known))
    return known


def about_run(path: str | Path) -> dict[str, Any]:
    """Return date, seconds and versions of a run or a model file, as far as they are known."""
    path = Path(path)
    folder, file = (path, path / "model.h5") if path.is_dir() else (path.parent, path)
    about: dict[str, Any] = {"date": datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "minutes")}
    if not path.is_dir():
        return about
    found = read_versions(folder)
    if found:
        about["versions"] = found
    elapsed = [line["elapsed_s"] for line in read_history(folder)]
    if elapsed:
        # The clock restarts where a stopped run of an early version was resumed: add up its last values.
        about["seconds"] = sum(now for now, after in pairwise([*elapsed, 0.0]) if after < now)
    return about


# ---- facts ----------------------------------------------------------------------------------------------------------


def facts(
    model: Any,
    networks: Networks,
    config: Mapping[str, Any] | None = None,
    results: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the numbers of a report as plain lists and dicts; see `write_report` for the arguments."""
    networks = as_networks(networks)
    names = getattr(model, "task_names_", None)
    if names is not None and len(names) != len(networks):
        raise ValueError(
            f"the model was trained on {len(names)} tasks, but {len(networks)} networks were given; "
            "report on the networks that it was trained on."
        )
    tasks = [_task_facts(network) for network in networks]
    known: dict[str, Any] = {
        "model": _model_name(model, len(networks)),
        "data_set": _data_set(config, about),
        "settings": _settings(model, config),
        "about": dict(about or {}),
        "tasks": tasks,
        "methods": [],
        "remarks": [],
        "hits_at": HITS_AT,
        "convergence": _convergence(model, networks),
        "words": [{"name": name, "words": _top_words(metric)} for name, metric in learned_metrics(model)],
        "similar": _similar_words(learned_metrics(model)[0][1]),
        "probabilities": _probabilities(model, networks),
    }
    if hidden_nodes_of(model) is None:
        return known
    qualities = hidden_quality(model, networks, k=HITS_AT)
    for q, (task, (network, nodes, quality)) in enumerate(zip(tasks, qualities, strict=True)):
        task |= _hidden_facts(metric_of(model, q), network, nodes, quality)
    splits = [split_at(network, nodes) for network, nodes, _ in qualities]
    training = [split.train for split in splits]
    known["remarks"] = check_leaks(training, [split.test for split in splits])
    if results is None:
        rows, refused = _baseline_rows(training, qualities)
        known["remarks"] += refused
    else:
        rows = [_given_row(row, len(networks)) for row in results["methods"] if row["method"] != known["model"]]
    aucs = [task["auc"] for task in tasks]
    known["methods"] = [*rows, {"method": known["model"], "auc": aucs, "mean": mean_over_tasks(aucs)}]
    return known


def _hidden_facts(metric: Metric, network: Network, nodes: np.ndarray, quality: LinkQuality) -> dict[str, Any]:
    """Return how well the links of the hidden nodes of a task are predicted."""
    scorer = NodeScores.of(metric, network, KnownLinks(network.adjacency).without(nodes))
    order = _by_auc(quality, network.degrees[nodes])
    best, worst = order[:SHOWN_NODES], order[SHOWN_NODES:][-SHOWN_NODES:][::-1]
    return {
        "hidden": len(nodes),
        "scored": quality.n_defined,
        "hidden_links": int(network.degrees[nodes].sum()),
        **quality.means(),
        "node_auc": quality.auc[~np.isnan(quality.auc)].tolist(),
        "roc": mean_roc(scorer, network, nodes).tolist(),
        "best": [_node_facts(scorer, network, nodes[k], quality.auc[k]) for k in best],
        "worst": [_node_facts(scorer, network, nodes[k], quality.auc[k]) for k in worst],
    }


def _probabilities(model: Any, networks: list[Network]) -> list[dict[str, Any]]:
    """Return how far the probabilities of each task can be trusted; nothing if the model is not calibrated."""
    results = hidden_calibration(model, networks) if calibrations_of(model) else []
    return [
        {
            "name": result.task,
            "kind": result.calibration.kind,
            "ece": result.calibration.ece,
            "link_ece": result.calibration.link_ece,
            "hidden_ece": result.ece,
            "hidden_link_ece": result.link_ece,
            "n_links_error": result.calibration.n_links_error,
            "curve": (result.curve if len(result.curve) else result.calibration.curve).tolist(),
            "deciles": result.deciles.tolist(),
        }
        for result in results
    ]


def _data_set(config: Mapping[str, Any] | None, about: Mapping[str, Any] | None) -> str | None:
    """Return the name of the data set: as given, or that of the file of networks."""
    if about and about.get("data_set"):
        return str(about["data_set"])
    return Path(config["networks"]).stem if config and config.get("networks") else None


def _given_row(row: Mapping[str, Any], n_tasks: int) -> dict[str, Any]:
    """Return the results of a method that were handed in."""
    aucs = list(row["auc"])
    if len(aucs) != n_tasks:
        raise ValueError(f"results must give every method one AUC per task; there are {n_tasks} tasks.")
    differences = {name: row[name] for name in ("difference", "difference_error") if row.get(name) is not None}
    return {"method": row["method"], "auc": aucs, "mean": mean_over_tasks(aucs), **differences}


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
    name = "MT-SPML" if isinstance(model, MTSPML) else "U-SPML" if n_networks > 1 else "SPML"
    return name if model.form == "diagonal" else f"{name}, {model.form}"


def _settings(model: Any, config: Mapping[str, Any] | None) -> dict[str, str]:
    params = {} if isinstance(model, Metric) else model.get_params()
    settings = {**(config or {}), **params}
    return {name: str(getattr(value, "kind", value)) for name, value in settings.items()}


def _top_words(metric: Metric) -> list[dict[str, Any]]:
    return [{"word": _word(f), "weight": float(weight)} for f, weight in metric.top_features(TOP_WORDS) if weight > 0]


def _similar_words(metric: Metric) -> list[dict[str, Any]]:
    """Return the words that a factored metric weighs most, each with those it treats as similar; else nothing."""
    if not isinstance(metric, FactoredMetric):
        return []
    words = metric.top_features(SIMILAR_WORDS).feature.tolist()
    return [
        {"word": _word(f), "similar": [_word(g) for g in metric.similar_features(f, 6, normalised=True).feature]}
        for f in words
    ]


def _pair(feature: Any, other: Any) -> str:
    """Return the name of a feature of one node and one of another that link them; once if it is the same."""
    return _word(feature) if feature == other else f"{_word(feature)} with {_word(other)}"


def _word(feature: Any) -> str:
    return feature if isinstance(feature, str) else f"feature {feature}"


def _convergence(model: Any, networks: Sequence[Network]) -> dict[str, Any] | None:
    """Return the share of violated triplets in bins of iterations, per task, or of all where they are pooled."""
    if not len(getattr(model, "violations_", ())):
        return None
    violated = np.maximum(model.violations_.reshape(len(model.violations_), -1), 0)  # -1: the task took no part
    bins = np.array_split(violated / model.batch_size, min(CONVERGENCE_BINS, len(violated)))
    is_pooled = violated.shape[1] != len(networks)
    names = ["all tasks"] if is_pooled else [network.name for network in networks]
    shares = np.array([part.mean(axis=0) for part in bins]).T
    return {
        "iterations": np.cumsum([len(part) for part in bins]).tolist(),
        "violated": [{"name": name, "share": share.tolist()} for name, share in zip(names, shares, strict=True)],
    }


def _baseline_rows(
    training: list[Network], ours: Sequence[tuple[Network, np.ndarray, LinkQuality]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the results of methods without training, and a sentence for each method that refuses these networks.

    ``ours`` has every network, its hidden nodes, and the quality of their rankings by the model.
    """
    scorers: dict[str, list[Any]] = {}
    refused = []
    for name, baseline in {"Euclid": Euclid("l1"), "cosine tf-idf": CosineTfidf()}.items():
        try:
            scorers[name] = [baseline.fit(training)] * len(ours)
        except ValueError as error:
            refused.append(f"{name} was left out of the comparison: {error}")
    # One task at a time, because tasks may have the same name.
    scorers["popularity"] = [Popularity().fit(network) for network in training]
    rows = []
    for name, per_task in scorers.items():
        qualities = [
            link_quality(scorer, network, nodes) for scorer, (network, nodes, _) in zip(per_task, ours, strict=True)
        ]
        aucs = [quality.means()["auc"] for quality in qualities]
        difference, spread = paired_difference([own.auc for _, _, own in ours], [quality.auc for quality in qualities])
        row = {"method": name, "auc": aucs, "mean": mean_over_tasks(aucs)}
        rows.append(row | {"difference": difference, "difference_error": spread})
    return rows, refused


def _by_auc(quality: LinkQuality, degrees: np.ndarray) -> np.ndarray:
    """Return positions of the nodes with an AUC, best first; of equal ones, those with more links."""
    order = np.lexsort((-degrees, -quality.auc))
    return order[~np.isnan(quality.auc[order])]


def _links_and_others(network: Network, node: int) -> tuple[np.ndarray, np.ndarray]:
    is_link = np.zeros(network.n_nodes, dtype=bool)
    is_link[row_columns(network.adjacency, node)] = True
    is_other = ~is_link
    is_other[node] = False
    return is_link, is_other


def _node_facts(scorer: NodeScores, network: Network, node: int, auc: float) -> dict[str, Any]:
    """Return the ranks of a node's nearest link and non-link, and the words that it shares with them."""
    scores = scorer.node_scores(np.array([node]))[0]
    is_link, is_other = _links_and_others(network, node)
    links, others = (np.flatnonzero(mask)[np.argsort(scores[mask], kind="stable")] for mask in (is_link, is_other))

    def compared(other: int) -> dict[str, Any]:
        pairs = scorer.metric.explain_pairs(network.subset([node]), network.subset([other]), SHARED_WORDS)
        return {
            "node": str(network.nodes[other]),
            "place": 1 + int(np.count_nonzero(scores[is_link | is_other] < scores[other])),
            "shared": [{"word": _pair(f, g), "shared": float(shared)} for f, g, shared in pairs if shared > 0],
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
