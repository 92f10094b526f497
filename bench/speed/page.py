"""The results as one page of Markdown."""

from __future__ import annotations

from typing import Any

from bench.paper.tables import markdown
from bench.speed.bars import bars
from bench.speed.growth import bends


def page(results: dict[str, Any]) -> str:
    """Return the page; parts that were not measured are left out."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {value}" for name, value in machine.items() if name not in ABOUT)
    quick = [part for part in SECTIONS if results.get(part, {}).get("measured", {}).get("quick")]
    sections = [
        f"""# How fast, side by side

Made by `python -m bench.speed`. {machine["cores"]} cores of {machine["processor"]}, {machine["system"]}, Python
{machine["python"]}; {versions}; {machine["date"]}. Measured at commit {_commits(results)}.
{f"**A quick run: {', '.join(quick)}.**" if quick else ""}
Times are medians of repeats that took turns, after one that is not counted; only ratios within one run can be compared.
Networks are laid out beforehand (`prepare`); what is timed is setting up memory and iterating (`fit_until`), drawing
included. One thread unless it says otherwise. A planted network is called by nodes x words x words a node; the chance
of its word f falls like f^(-2/3)."""
    ]
    for name, write in SECTIONS.items():
        if NOT_MEASURED in results.get(name, {}):
            sections.append(f"## Not measured: {name}\n\n{results[name][NOT_MEASURED]}.")
        elif name in results:
            sections.append(write(results[name]))
    rows = [[what, wanted, got, "yes" if is_met else "**no**"] for what, wanted, got, is_met in bars(results)]
    if rows:
        sections.insert(1, "## Bars\n\n" + markdown(["", "wanted", "measured", "met"], rows))
    return "\n\n".join(sections) + "\n"


def _commits(results: dict[str, Any]) -> str:
    """Return the commit of every part, or the one that all have."""
    by_part = {part: results[part].get("measured", {}).get("commit") for part in SECTIONS if part in results}
    commits = {commit for commit in by_part.values() if commit}
    if len(commits) <= 1:
        return next(iter(commits), results["machine"]["commit"])
    return ", ".join(f"{commit} ({part})" for part, commit in by_part.items())


NOT_MEASURED = "not measured"  # the key of a part's reason
ABOUT = ("cores", "processor", "system", "python", "commit", "date")


def number(value: Any) -> str:
    """Return a number with three digits that count."""
    if isinstance(value, float):
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def limit_section(part: dict[str, Any]) -> str:
    """Return the cases beside C."""
    keys = ["nodes", "words", "words a node", "metric", "batch", "us", "C us", "ratio", "same bits"]
    rows = [[name, *(_yes(row.get(key)) for key in keys)] for name, row in part["cases"].items()]
    header = ["", *keys[:5], "fastspml, us a triplet", "C, us a triplet", "ratio", "same bits"]
    compiling = part["compiling"]
    text = f"""## Beside the same loop in C

{markdown(header, rows, number)}

Nothing is projected. The first fit on a machine compiles for {compiling["first_fit_cold_s"]:.0f} s, the first of a
later process takes {compiling["first_fit_of_second_process_s"]:.1f} s (SPML with its defaults, on a tiny network)."""
    if part.get("projection"):
        text += f"""
Projecting the full metric of {part["projection"]["words"]:,} words takes {part["projection"]["seconds"]:.0f} s."""
    if part.get("memory"):
        chained, independent, stream, size = (
            part["memory"][key]
            for key in ("chained_access_ns", "independent_access_ns", "stream_gb_per_s", "megabytes")
        )
        text += f"""
Memory of this machine, over {size} MB: {chained:.0f} ns for a random access that waits for the one before,
{independent:.1f} ns for one that does not, {stream:.1f} GB/s in a stream."""
    return "\n\n".join([text, *(f"Skipped: {name}, {reason}." for name, reason in part["skipped"].items())])


def _yes(value: Any) -> Any:
    return {True: "yes", False: "**no**"}[value] if isinstance(value, bool) else value


def peers_section(part: dict[str, Any]) -> str:
    """Return the peers' times and how many times fastspml's they are."""
    micros = part["us"]
    ours = {size: micros[f"fastspml, batch {size}"] for size in ("10", "100")}
    rows = [[name, us, us / (ours["100"] if name.endswith("batch 100") else ours["10"])] for name, us in micros.items()]
    lines = [
        "## Peers on the same work",
        markdown(["Debian packages, tf-idf, diagonal", "us a triplet", "times fastspml's"], rows, number),
        "Batches of 100 are compared with fastspml's of 100, all else with its batches of 10. SciPy and PyTorch are "
        "handed their triplets, the very ones that fastspml draws; fastspml's time has the drawing in it. A row of "
        "triplets written out is (x_i - x_l)^2 - (x_i - x_j)^2, in float32, which writing out and SGD are faster in. A "
        "sample of BPR reads three rows of 32 numbers. PyTorch and implicit use one thread.",
    ]
    if part.get("metric-learn"):
        said = "; ".join(f"given {kind}, `{sentence}`" for kind, sentence in part["metric-learn"].items())
        lines.append(f"metric-learn, triplets of 60 nodes with 40 words: {said}.")
    lines += [f"Skipped: {reason}." for reason in part["skipped"].values()]
    return "\n\n".join(lines)


def objective_section(part: dict[str, Any]) -> str:
    """Return who came when to the objective that LIBLINEAR found."""
    lines = [
        f"""## Objective against seconds

Debian packages, {part["nodes"]:,} training nodes, {part["words"]:,} words, tf-idf, diagonal, prior zero, margin 1,
nothing projected. All are evaluated on the same {part["fresh"]:,} fresh triplets, and by the AUC of {part["hidden"]:,}
hidden nodes.
Seconds have everything in them but compiling and judging; LIBLINEAR (C = 1/(reg m), no intercept) and SGD are given
m = {part["written"]:,} triplets, and the time to write them out, {part.get("writing_s", 0.0):.2f} s, is counted.

![Objective and AUC against seconds](speed-objective.svg)"""
    ]
    for reg, curves in part["curves"].items():
        rows = [
            [name, len(curve), curve[-1]["s"], min(point["objective"] for point in curve), curve[-1]["auc"]]
            for name, curve in curves.items()
            if curve
        ]
        lines.append(f"reg = {reg}, where each ended:")
        lines.append(markdown(["", "evaluations", "seconds", "best objective", "AUC at the end"], rows, number))
        reached = part["reached"][reg]
        if reached:
            names = [name for name in reached[0] if name not in ("tolerance", "objective")]
            lines.append("Seconds until within 1% of LIBLINEAR's objective, by its tolerance (empty: not reached):")
            header = ["tolerance", "its objective", *names]
            rows = [[f"{row['tolerance']:g}", row["objective"], *(row[name] for name in names)] for row in reached]
            lines.append(markdown(header, rows, number))
    if part.get("skipped"):
        lines.append(f"Skipped: {part['skipped']}.")
    return "\n\n".join(lines)


def growth_section(part: dict[str, Any]) -> str:
    """Return microseconds a triplet by what is varied, and where caches end."""
    base = ", ".join(f"{value:,} {name}" for name, value in part["base"].items() if name != "batch")
    lines = [
        "## Growth",
        f"One number is varied at a time; the others are {base}, batches of {part['base']['batch']}.",
        "![Microseconds a triplet](speed-growth.svg)",
    ]
    for name, rows in part["rows"].items():
        table = [[row["at"], row["us"], row.get("C us"), row.get("ratio")] for row in rows]
        lines.append(markdown([name, "fastspml, us a triplet", "C, us a triplet", "ratio"], table, number))
    return "\n\n".join(lines + bends(part))


TWO_CORES = ("16 shards on one thread, s", "two threads, times one", "two processes, times one")


def factored_section(part: dict[str, Any]) -> str:
    """Return what factored metrics take: beside C and peers, on two threads, and to search."""
    in_c = [[shape, *row.values(), *part["two threads"][shape].values()] for shape, row in part["C"].items()]
    ours, found = part["us"]["fastspml"], part["search"]
    beside = [[name, micros, micros / ours] for name, micros in part["us"].items()]
    faiss = "not measured" if found["faiss"] is None else f"{number(found['faiss'])} queries a second"
    return "\n\n".join(
        [
            f"## Factored metrics of rank {part['rank']}, batches of 10",
            markdown(["", "us a triplet", "in C", "ratio", "same bits", *TWO_CORES], in_c, number),
            "Two processes run a fit each and exchange nothing: two threads cannot reach more than they do.",
            markdown(["Debian packages, one thread", "us a triplet", "times fastspml's"], beside, number),
            f"The 10 most similar of {found['nodes']:,} packages, exactly, on one thread: {number(found['fastspml'])} "
            f"queries a second; faiss's flat index on the same vectors made dense: {faiss}.",
        ]
    )


def threads_section(part: dict[str, Any]) -> str:
    """Return two threads against one."""
    rows = [[row[key] for key in ("shape", "batch", "stream us", "one us", "two us", "times")] for row in part["rows"]]
    header = ["", "batch", "no shards, us a triplet", "shards on one thread", "on two threads", "two against one"]
    return (
        f"## Two threads\n\n{markdown(header, rows, number)}\n\n{part.get('shards', 32)} shards. Both numbers of "
        "threads gave the same bits, or this would have stopped."
    )


def ranking_section(part: dict[str, Any]) -> str:
    """Return top-k and AUC beside those who do the same, and how both grow."""
    lines = ["## Exact top-10 and AUC"]
    for metric, found in part["top-10"].items():
        names = found["queries per second"]
        rows = [
            [name, found["queries per second"][name], found["times"].get(name), found["recall"].get(name, 1.0)]
            for name in names
        ]
        header = [
            f"top-10 of {found['nodes']:,} Debian packages, {metric}",
            "queries a second",
            "fastspml is faster by",
        ]
        lines.append(markdown([*header, "recall"], rows, number))
        lines += [f"Skipped: {name}, {reason}." for name, reason in found["skipped"].items()]
    auc = part["auc"]
    rows = [[name, value, auc["times"].get(name)] for name, value in auc["milliseconds per node"].items()]
    header = [f"AUC of {auc['hidden nodes']:,} hidden packages", "milliseconds a node", "times the loop"]
    lines.append(markdown(header, rows, number))
    lines += [f"Skipped: {name}, {reason}." for name, reason in auc["skipped"].items()]
    keys = ["nodes", "words", "index s", "top-10 s", "auc s", "network peak MB", "top-10 peak MB", "auc peak MB"]
    lines += [
        f"Growth, {part['growth'][0]['queries']} queries, one thread; an index is built once. A peak is of all the "
        "process has held so far:",
        markdown(keys, [[row[key] for key in keys] for row in part["growth"]], number),
        "![Seconds and memory of top-10 and AUC](speed-ranking.svg)",
    ]
    return "\n\n".join(lines)


SECTIONS = {
    "limit": limit_section,
    "peers": peers_section,
    "objective": objective_section,
    "growth": growth_section,
    "threads": threads_section,
    "factored": factored_section,
    "ranking": ranking_section,
}
