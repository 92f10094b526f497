"""The page of bench.rivals: a table per data set, and where and why fastspml is behind, from the records alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.environment import about
from bench.paper import tables
from bench.rivals.child import MEASURES
from bench.rivals.fastspml_select import LEAST_FITS
from bench.rivals.registry import RIVALS, n_lines, rival_class

Record = dict[str, Any]
OURS = ("fastspml", "fastspml, select", "fastspml, popularity")
WITH_TEXTS = "fastspml, words and MiniLM"
COMPARED = ("auc", "recall")


def of(records: Sequence[Record], data: str, rival: str) -> list[Record]:
    """Return the records of a rival on a data set, by split."""
    found = [record for record in records if record["data"] == data and record["rival"] == rival]
    return sorted((record for record in found if "skipped" not in record), key=lambda record: record["split"])


def mean(records: Sequence[Record], measure: str) -> float:
    """Return the mean over splits."""
    return float(np.mean([record[measure] for record in records]))


def error(records: Sequence[Record], measure: str) -> float:
    """Return the standard error over splits; of a single split, that over its hidden nodes."""
    if len(records) > 1:
        return tables.mean_and_error([record[measure] for record in records])[1]
    return float(records[0]["errors"][measure])


def seconds(records: Sequence[Record]) -> float:
    """Return the seconds until links can be predicted: tuning, training and the encoding of texts."""
    return mean(records, "train_s") + mean(records, "encode_s")


def lead(ahead: Sequence[Record], behind: Sequence[Record], measure: str) -> tuple[float, float]:
    """Return how far one is ahead of the other, and the standard error.

    Splits that both have are paired. For a single split the errors over its nodes are added as if they were
    independent; they are not, so that this is an upper bound.
    """
    other = {record["split"]: record for record in behind}
    pairs = [(record, other[record["split"]]) for record in ahead if record["split"] in other]
    differences = [one[measure] - two[measure] for one, two in pairs]
    if len(pairs) > 1:
        return tables.mean_and_error(differences)
    one, two = pairs[0]
    return differences[0], float(np.hypot(one["errors"][measure], two["errors"][measure]))


def table(records: Sequence[Record], data: str) -> str:
    """Return the table of a data set."""
    rows = []
    for rival, file in RIVALS.items():
        found = of(records, data, rival)
        if not found:
            continue
        kind = rival_class(file)
        values = [f"{mean(found, measure):.3f} ± {error(found, measure):.3f}" for measure in MEASURES]
        cost = f"{seconds(found):.1f}" if seconds(found) >= 0.05 else "0"
        counts = [f"{mean(found, 'queries_per_s'):,.0f}", f"{mean(found, 'peak_mb'):,.0f}"]
        rows.append([rival, kind.uses, *values, cost, str(found[0]["n_tried"] or ""), *counts, str(n_lines(kind))])
    header = ["", "candidates known by", *MEASURES.values(), "seconds", "tried", "queries/s", "peak MB", "lines"]
    return tables.markdown(header, rows)


def reason(ours: Sequence[Record], theirs: Sequence[Record], uses: str, measure: str) -> str:
    """Return which links a rival ranks better: those to seen candidates, to unseen ones, or both.

    This tells where its lead is, not what causes it.
    """
    gains = {part: np.mean([r[part][measure] for r in theirs]) - np.mean([r[part][measure] for r in ours])
             for part in ("to_seen", "to_unseen")}  # fmt: skip
    parts = f"{gains['to_seen']:+.3f} among seen candidates, {gains['to_unseen']:+.3f} among unseen ones"
    if gains["to_seen"] > 0 >= gains["to_unseen"]:
        where = "only among candidates that it was trained on"
    elif gains["to_unseen"] > gains["to_seen"]:
        where = "more among unseen candidates"
    else:
        where = "among both, more among those that it was trained on"
    return f"{parts}, so {where} (it knows candidates by {uses})"


def comparison(records: Sequence[Record], data: str) -> list[str]:
    """Return sentences on where fastspml's forms without texts are ahead of all, and where not."""
    lines = []
    for name in OURS:
        ours = of(records, data, name)
        for measure in COMPARED if ours else ():
            lines += [f"- {MEASURES[measure]}, {name}: {line}." for line in against_all(records, data, ours, measure)]
    minilm, both = of(records, data, "MiniLM, faiss"), of(records, data, WITH_TEXTS)
    if minilm and both:
        for measure in COMPARED:
            difference, spread = lead(both, minilm, measure)
            word = "ahead of" if difference > spread else "behind" if difference < -spread else "level with"
            lines.append(f"- {MEASURES[measure]}, {WITH_TEXTS}: {word} MiniLM alone, {difference:+.3f} ± {spread:.3f}.")
    lines.append(speed_line(records, data))
    return lines


def against_all(records: Sequence[Record], data: str, ours: Sequence[Record], measure: str) -> list[str]:
    """Return how a form of fastspml compares with every rival without texts."""
    behind, level = [], []
    for rival, file in RIVALS.items():
        theirs, kind = of(records, data, rival), rival_class(file)
        if rival in (*OURS, WITH_TEXTS) or not theirs or kind.needs_texts:
            continue
        difference, spread = lead(theirs, ours, measure)
        if difference > spread:
            why = reason(ours, theirs, kind.uses, measure)
            behind.append(f"behind {rival} by {difference:.3f} ± {spread:.3f}: {why}")
        elif difference > -spread:
            level.append(rival)
    if level:
        behind.append(f"within a standard error of {', '.join(level)}")
    return behind or ["ahead of every rival without texts by more than a standard error"]


def speed_line(records: Sequence[Record], data: str) -> str:
    """Return the seconds of the fastest rival that reaches the AUC of fastspml's defaults, and fastspml's own."""
    ours = of(records, data, OURS[0])
    rivals = [(name, of(records, data, name)) for name in RIVALS if name not in (*OURS, WITH_TEXTS)]
    rivals = [(name, theirs) for name, theirs in rivals if theirs and ours]
    equal = []
    for name, theirs in rivals:
        difference, spread = lead(theirs, ours, "auc")
        if difference > -spread and seconds(theirs) > 0.05:  # those that learn
            equal.append((seconds(theirs), name))
    if not equal:
        return "- Seconds: no rival that learns reaches the AUC of fastspml's defaults in this budget."
    cost, name = min(equal)
    tuned = of(records, data, OURS[1])
    beside = f"; with tuning, fastspml takes {seconds(tuned):.1f} s" if tuned else ""
    last = [record["last_s"] for record in of(records, data, name) if record.get("last_s") is not None]
    alone = f" ({np.mean(last):.2f} s without it, for the setting that it chose)" if last else ""
    return (
        f"- Seconds: {name} reaches the AUC of fastspml's defaults in {cost:.1f} s with its tuning{alone}, the "
        f"defaults take {seconds(ours):.2f} s without any{beside}. The budget sets the seconds of all that are tuned."
    )


def skipped(records: Sequence[Record]) -> str:
    """Return which rivals were left out, and why."""
    reasons: dict[str, list[str]] = {}
    for record in records:
        if "skipped" in record:
            reasons.setdefault(f"{record['rival']}: {record['skipped']}", []).append(record["data"])
    return "\n".join(f"- {text} ({', '.join(dict.fromkeys(data))})" for text, data in reasons.items()) or "- none"


def commits(records: Sequence[Record]) -> str:
    """Return the commits that the records were measured at, with their methods if there are several."""
    methods: dict[str, list[str]] = {}
    for record in records:
        methods.setdefault(record.get("commit", "unknown"), []).append(record["rival"])
    if len(methods) == 1:
        return next(iter(methods))
    fewest_first = sorted(methods, key=lambda commit: len(methods[commit]))
    parts = [f"{commit} ({'; '.join(dict.fromkeys(methods[commit]))})" for commit in fewest_first[:-1]]
    return f"{', '.join(parts)} and {fewest_first[-1]} (all others)"


def page(records: Sequence[Record], budget: float, note: str = "") -> str:
    """Return the page as Markdown; `note` says what a shorter run leaves out."""
    names = list(dict.fromkeys(record["data"] for record in records))
    n_splits = len({record["split"] for record in records})
    parts = [
        f"## {name}\n\n{table(records, name)}\n\n{chr(10).join(comparison(records, name))}\n"
        for name in names if any(of(records, name, rival) for rival in RIVALS)
    ]  # fmt: skip
    versions: dict[str, str] = {}
    for record in records:
        versions |= record.get("versions", {})
    machine = about()
    listed = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    spread = "over splits" if n_splits > 1 else "over hidden nodes, because there is one split"
    return f"""# Beside its rivals
{note and f"{chr(10)}{note}{chr(10)}"}
Made by `python -m bench.rivals`: {n_splits} random split{"s" if n_splits > 1 else ""}, a fifth of the nodes hidden,
links made undirected. Every method ranks the same candidates for the same hidden nodes, and the same code computes the
measures: means over tasks of means over hidden nodes, ± a standard error {spread}.
Each method runs on one thread in a process of its own. It tunes itself on held-out training nodes, for about
{budget:g} CPU seconds including the final training; a single fit that takes longer is not interrupted unless the method
can be. fastspml's selection needs about {LEAST_FITS} fits at least, which can exceed the budget.
"Seconds" are CPU seconds, without imports and compilation, with the encoding of texts. "Tried" is the number of
settings, "queries/s" hidden nodes per CPU second with all candidates scored, "lines" the code of the rival's file.
Cosine, LightFM, LightGBM, Vowpal Wabbit, GraphSAGE and PECOS get the weights of words that fastspml takes by default;
bm25s gets counts. PECOS cannot score unseen candidates, so the cosine is added with a tuned weight. MiniLM needs texts,
which only Debian has.

The lists of settings of LightGBM and GraphSAGE were improved on training nodes of Cora. Two things were changed after a
first run on the hidden nodes of the first split: the order of Vowpal Wabbit's settings, and that fastspml's selection
always tries the defaults beside the random settings of a small budget, which raised it on Debian and Wikipedia.
What known links are worth to fastspml is learned by a method that was developed on training nodes of the first split.

Measured on {machine["cores"]} cores of an {machine["processor"]}, commit {commits(records)}, with {listed}.

![AUC against seconds](rivals.svg)

{chr(10).join(parts)}
## Left out

{skipped(records)}
"""
