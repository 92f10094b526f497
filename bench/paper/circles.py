"""The paper's second experiment: which circles of an ego does a newcomer belong to?

A task is a circle, its links run from the ego to the members. A fifth of the ego's alters is hidden, from all circles
at once; the hidden ones are ranked by their distance from the ego, members against others: one AUC a circle. The ego
is the anchor, and never hidden.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from bench.paper import tables
from bench.paper.methods import PAPER_MULTI, PAPER_SINGLE, Method
from bench.paper.protocol import TEST_SIZE, Plan, Tell, command, mean_aucs, splits_left, teller
from bench.paper.tables import Record
from fastspml import MTSPML, SPML, Network, split_networks
from fastspml.baselines import CosineTfidf
from fastspml.selection import hidden_links

# Profiles are short, and a single node anchors all triplets, so fewer iterations do.
N_ITERS = 2000

# Profiles are not texts: a feature of the ego that a circle lacks says as much as one that it has, so weights must be
# free to become negative. The grid was chosen on the four egos that have too few circles for the experiment.
_REGS = [10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4]
_BOTH = {
    "weighting": ["none", "l2"], "projection": ["never"], "prior": ["zero", "identity"],
    "n_iters": [N_ITERS // 16, N_ITERS // 4, N_ITERS],
}  # fmt: skip
SINGLE = _BOTH | {"reg": _REGS}
# MT-SPML may choose what ST-SPML can: circles that share nothing (common_reg=inf), a prior of zero, and, by the last
# step of `select`, a weight of regularisation for every circle. It may also choose one metric for all (task_reg=inf).
MULTI = [
    _BOTH | {"project": ["combined"], "common_reg": [np.inf], "task_reg": _REGS},
    _BOTH | {"project": ["combined"], "common_reg": _REGS, "task_reg": [*_REGS, np.inf]},
]

_SPML, _MTSPML = (SPML.paper(n_iters=N_ITERS), MTSPML.paper(n_iters=N_ITERS))
METHODS = {
    "cosine tf-idf": Method("cosine tf-idf", CosineTfidf()),
    "ST-SPML": Method("ST-SPML", _SPML, SINGLE, is_separate=True, is_halving=True),
    "U-SPML": Method("U-SPML", _SPML, SINGLE, is_halving=True),
    "MT-SPML": Method("MT-SPML", _MTSPML, MULTI, is_halving=True),
    "ST-SPML, paper": Method("ST-SPML, paper", _SPML, PAPER_SINGLE, is_separate=True),
    "U-SPML, paper": Method("U-SPML, paper", _SPML, PAPER_SINGLE),
    "MT-SPML, paper": Method("MT-SPML, paper", _MTSPML, PAPER_MULTI),
}

# Why the grids end where they do: what wider ones gained in cross-validation of ST-SPML on six egos of Twitter.
EDGE_REASONS: dict[Any, str] = {
    "n_iters": "31 and 8,000 iterations gained .003 in cross-validation, and take four times as long",
    ("reg", 10.0): "100 and 1,000 gained .0002 in cross-validation",
    ("reg", 1e-3): "0.1 and 10 gained .002 in cross-validation of the paper's recipe",
    **dict.fromkeys(("reg", "common_reg", "task_reg"), "smaller ones only rescale the metric: the margin vanishes"),
}

N_GROUPED_SPLITS = 3  # of every ego, on which groups of its circles are learned, for Fig. 3 to 5
N_GROUPED = 6  # egos of a data set with more, spread evenly over their mean overlaps, whose circles are also grouped


def overlap(one: Network, other: Network) -> float:
    """Return the share of two circles' members that are in both: intersection over union."""
    members, others = set(one.adjacency.indices.tolist()), set(other.adjacency.indices.tolist())
    return len(members & others) / len(members | others)


def overlaps(tasks: Sequence[Network]) -> list[list[float]]:
    """Return Table 2 of one ego."""
    return [[overlap(one, other) for other in tasks] for one in tasks]


def least_related(tasks: Sequence[Network]) -> tuple[int, int]:
    """Return the pair of circles that overlaps least, the larger circles if several do: the pair of Fig. 5."""
    return min(combinations(range(len(tasks)), 2), key=lambda pair: (overlap(tasks[pair[0]], tasks[pair[1]]), pair))


def groups(tasks: Sequence[Network]) -> list[tuple[int, ...]]:
    """Return which circles are learned together: {1,2}, {1,2,3}, ... as in the paper, and the least related pair."""
    growing = [tuple(range(n)) for n in range(2, len(tasks) + 1)]
    return list(dict.fromkeys([*growing, least_related(tasks)]))


def mean_overlap(tasks: Sequence[Network]) -> float:
    """Return the mean overlap of all pairs of circles."""
    return float(np.mean([overlap(one, other) for one, other in combinations(tasks, 2)]))


def grouped_egos(egos: Mapping[str, Sequence[Network]]) -> list[str]:
    """Return the egos of Table 2 and Fig. 3 to 5: all, or N_GROUPED at equal steps of their order by mean overlap."""
    ordered = sorted(egos, key=lambda ego: mean_overlap(egos[ego]))
    if len(ordered) <= N_GROUPED:
        return list(egos)
    return [ordered[place] for place in np.linspace(0, len(ordered) - 1, N_GROUPED).round().astype(int)]


def run(
    egos: Mapping[str, Sequence[Network]],
    plan: Plan,
    tell: Tell,
    save: Callable[[list[Record]], None],
    done: Sequence[Record] = (),
) -> list[Record]:
    """Fit and evaluate on every ego and split; `save` receives the records after each split; see `protocol.run`."""
    records, grouped = list(done), grouped_egos(egos)
    for seed in splits_left(plan, done, tell):
        for ego, tasks in egos.items():
            splits = split_networks(tasks, TEST_SIZE, seed, anchors=[ego])
            for name, method in METHODS.items():
                if name.endswith("paper") and ego not in grouped:
                    continue
                everything = tuple(range(len(tasks)))
                together = [everything]
                is_grouped = ego in grouped and seed < N_GROUPED_SPLITS
                if is_grouped and method.grid and not method.is_separate and not name.endswith("paper"):
                    together = groups(tasks)
                for group in together:
                    where = f"split {seed + 1} of {plan.n_splits}, ego {ego}, {name} {label(group)}"
                    started = time.perf_counter()
                    training = [splits[q].train for q in group]
                    chosen = method.select(training, plan.n_folds, anchors=[ego], progress=teller(where, tell))
                    hidden = {tasks[q].name: hidden_links(splits[q], [ego]) for q in group}
                    aucs = mean_aucs(method, training, chosen, hidden, plan.n_seeds)
                    seconds = time.perf_counter() - started
                    records.append(
                        {"split": seed, "ego": ego, "method": name, "group": list(group), **aucs, "params": chosen,
                         "seconds": round(seconds, 2)}
                    )  # fmt: skip
                    tell(f"{where}: AUC {np.nanmean(list(aucs['auc'].values())):.3f}, {seconds:.1f} s")
        save(records)
    return records


def label(group: Sequence[int]) -> str:
    """Return a group of circles as the paper writes it."""
    return "{" + ",".join(str(q + 1) for q in group) + "}"


# ---- tables ---------------------------------------------------------------------------------------------------------


def on_least_related(records: Sequence[Record], egos: Mapping[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return Fig. 5: per ego and method, the mean AUC of the least related pair, split by split."""
    result = {}
    for ego, about in egos.items():
        pair = list(about["least_related"])
        of_ego = [record for record in records if record["ego"] == ego]
        by_method = {}
        for method in ("ST-SPML", "MT-SPML", "U-SPML"):
            chosen = [r for r in of_ego if r["method"] == method and (method == "ST-SPML" or r["group"] == pair)]
            chosen = [r for r in chosen if r["split"] < N_GROUPED_SPLITS]
            places = pair if method == "ST-SPML" else [0, 1]
            by_method[method] = [float(np.nanmean([list(r["auc"].values())[p] for p in places])) for r in chosen]
        result[f"{ego} {label(pair)}"] = by_method
    return result


def pooled_over_egos(records: Sequence[Record], group: Sequence[int]) -> list[Record]:
    """Return the records of a group as one per split and method, the circles of all egos together."""
    chosen = [record for record in records if record["group"] == list(group)]
    pooled: dict[tuple[int, str], dict[str, float]] = {}
    for record in chosen:
        circles = {f"{record['ego']} {name}": auc for name, auc in record["auc"].items()}
        pooled.setdefault((record["split"], record["method"]), {}).update(circles)
    return [{"split": split, "method": method, "size": 100, "auc": aucs} for (split, method), aucs in pooled.items()]


def gains(records: Sequence[Record], egos: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Return, for every ego, the mean overlap of its circles, and the gain of MT-SPML over ST-SPML with its error."""
    found = {}
    for ego, about in egos.items():
        of_ego = [r | {"size": 100} for r in records if r["ego"] == ego and len(r["group"]) == len(about["members"])]
        found[ego] = about["mean_overlap"], *_difference(of_ego)
    return found


def _difference(records: Sequence[Record]) -> tuple[float, float]:
    difference = tables.difference(records, "MT-SPML", "ST-SPML")
    return difference["mean"], difference["error"]


def page(results: dict[str, Any]) -> str:
    """Return the tables of the second experiment as Markdown."""
    records, plan, egos, data = results["records"], results["plan"], results["egos"], results["data"]
    everything = list(range(max(len(record["group"]) for record in records)))
    together = pooled_over_egos(records, everything)
    shown = {ego: about for ego, about in egos.items() if about["is_grouped"]}
    rows = []
    for method in METHODS:
        aucs = tables.by_split(together, method)
        if method.endswith("paper") and len(shown) < len(egos):
            continue  # not fitted for all egos
        mean, error = tables.mean_and_error(aucs)
        behind = (
            "" if method == tables.BEST else tables.say_difference(tables.difference(together, tables.BEST, method))
        )
        per_ego = [
            float(np.nanmean([np.nanmean(list(r["auc"].values())) for r in records
                              if (r["ego"], r["method"], r["group"]) == (ego, method, everything)]))
            for ego in shown
        ]  # fmt: skip
        rows.append([method, *per_ego, f"{mean:.3f} ± {error:.3f}", behind])
    pairs = on_least_related(records, shown)
    little = [
        {"split": s, "method": method, "size": 100, "auc": {ego: values[method][s] for ego, values in pairs.items()}}
        for method in ("ST-SPML", "MT-SPML", "U-SPML")
        for s in range(min(plan["n_splits"], N_GROUPED_SPLITS))
    ]
    answers = {
        "all five circles, fastspml's recipe": tables.claims(together, 100),
        "all five circles, the paper's recipe": tables.claims(
            pooled_over_egos([r for r in records if r["ego"] in shown], everything), 100, ", paper"
        ),
        "the two circles of each ego that overlap least": tables.claims(little, 100),
    }
    overlap_tables = "\n\n".join(
        f"Ego {ego}, {about['alters']} alters, {about['features']} features:\n\n"
        + tables.markdown(
            ["circle", "members", *map(str, range(1, len(about["members"]) + 1))],
            [
                [
                    str(q + 1),
                    members,
                    *("" if q == p else f"{value:.1%}" for p, value in enumerate(about["overlaps"][q])),
                ]
                for q, members in enumerate(about["members"])
            ],
        )
        for ego, about in shown.items()
    )
    return f"""# {results["title"]}: which circles of an ego does a newcomer belong to?

Made by `{command(data, plan["n_splits"])}`: the {len(egos)} egos of {results["title"]} that have five circles of
at least 10 members, their five largest circles, {plan["n_splits"]} random splits, a fifth of the alters hidden,
everything selected by {plan["n_folds"]}-fold cross-validation over the other alters. Hidden alters are ranked by
their distance from the ego: one AUC a circle. ± is a standard error over splits; that of a difference, taken split by
split, is corrected for their overlap. Groups of circles (figures 3 to 5) are learned on the first
{N_GROUPED_SPLITS} splits. {tables.seed_sentence(records, plan["n_seeds"])}
{_rule(egos, shown)}

{tables.markdown(["", *(f"ego {ego}" for ego in shown), "all egos", "MT-SPML against it"], rows)}

## The paper's claims

An answer needs a difference at the 5% level of the corrected resampled t-test (Nadeau and Bengio 2003): splits
overlap, so plain standard errors over them are too small.

MT-SPML chooses from settings that contain those of ST-SPML: circles that share nothing, one metric for all of them, and
what is between; metrics that are pulled to zero or to the identity; a weight of regularisation for every circle.
Weights are not projected: one below zero marks a feature that keeps people out of a circle.

{tables.claims_table(answers)}

## Does overlap help?

The paper expects that tasks help each other if their circles overlap. {_slope_sentence(gains(records, egos))}

![Gain against overlap, a dot per ego]({data}-overlap.png)

## Ends of grids

What was chosen in more than a fifth of the fits of a method, and is the end of its grid. Where no reason is named, the
grid should be wider.

{tables.edges_table(tables.chosen_edges(records, results["grids"], plan["n_iters"]), EDGE_REASONS)}

## Table 2: overlap of circles, intersection over union

{overlap_tables}
"""


def _rule(egos: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    if len(shown) == len(egos):
        return ""
    return (
        f"Columns, Table 2 and figures 3 to 5 have {len(shown)} of the egos, at equal steps of their order by the mean "
        "overlap of their circles."
    )


def fitted_line(points: Mapping[str, tuple[float, float, float]]) -> Any:
    """Return the least squares line of gains against overlaps, as of scipy.stats.linregress."""
    overlap_of, gain_of = np.array([point[:2] for point in points.values()]).T
    return stats.linregress(overlap_of, gain_of)


def _slope_sentence(points: Mapping[str, tuple[float, float, float]]) -> str:
    line = fitted_line(points)
    gain_of = [gain for _, gain, _ in points.values()]
    return (
        f"Over {len(points)} egos, MT-SPML is ahead of ST-SPML on {sum(gain > 0 for gain in gain_of)}, by "
        f"{np.mean(gain_of):+.4f} in the mean. The slope of that gain against the mean overlap of an ego's circles is "
        f"{line.slope:+.3f} ± {line.stderr:.3f} (least squares, p = {line.pvalue:.2f}); at no overlap the gain is "
        f"{line.intercept:+.4f} ± {line.intercept_stderr:.4f}."
    )
