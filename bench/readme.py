"""Make the README's picture and tables again, and the summary of the paper's experiments: python -m bench.readme.

Runs `fastspml demo` on the bundled data and keeps its figure as bench/results/demo.svg. The tables between the markers
of README.md and bench/results/paper/summary.md come from the results of bench.accuracy, bench.anchors, bench.rivals,
bench.paper, bench.speed, bench.core and bench.similar.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import anchors
from bench.environment import RESULTS, write_results
from bench.paper import circles, tables
from bench.rivals import results_page
from fastspml.cli import main as fastspml

README = Path(__file__).parent.parent / "README.md"
SUMMARY = RESULTS / "paper" / "summary.md"

# The peers of bench.speed that the table of speed shows, with the names it shows them under.
PEERS = {
    "Numba, a plain loop": "Numba, a plain loop, batch 10",
    "SciPy, tuned": "SciPy, tuned, batch 10",
    "PyTorch, embedding bags": "PyTorch, embedding bags, batch 10",
    "scikit-learn SGD, triplets stored first": (
        "scikit-learn SGD, a pass over triplets written out, with the writing out"
    ),
}

FACTORED_PEERS = {name: name for name in ("PyTorch, embedding bags", "LightFM, WARP, a sample")}

METHODS = [
    "Euclid", "popularity", "cosine tf-idf", "ST-SVM", "U-SVM", "MT-SVM", "ST-SPML, paper", "U-SPML, paper",
    "MT-SPML, paper", "ST-SPML", "U-SPML", "MT-SPML",
]  # fmt: skip

SUMMARY_PAGE = """# The paper's methods, on three kinds of data

Made by `python -m bench.readme` from the results of `python -m bench.paper all`, which needs `pip install
'.[baselines,plots]'` and takes an hour or two for each data set (`--quick`: two minutes).

The paper's experiments are repeated over random splits. A fifth of the nodes is hidden, every method selects its
parameters by 5-fold cross-validation over the other nodes, and the links of the hidden nodes are ranked. The table
shows the mean AUC ± its standard error over splits ({splits}). Details of each experiment:
[Wikipedia](wikipedia.md), [Debian](debian.md), [Facebook circles](circles.md), [Twitter circles](twitter.md).

{auc}

Euclid is the distance between word counts scaled to sum 1; cosine is that between tf-idf vectors. Neither learns.
Popularity ranks by the number of training links. ST learns each task separately, U learns one model from all tasks
pooled, and MT learns a common part and one part per task. SVMs classify pairs of nodes by |x - y|, its squares and the
cosine of x and y.

![AUC against the share of training nodes, Wikipedia areas](wikipedia-fig1.svg)

## The paper's claims

With fastspml's recipe (for circles, its grid for profiles). An answer needs a difference at the 5% level of the
corrected resampled t-test (Nadeau and Bengio 2003): splits overlap, so plain standard errors are too small.

{claims}

On Wikipedia, what MT-SPML gains over ST-SPML comes from idf weights that are fitted over all tasks: with such weights,
ST-SPML reaches the same AUC. On circles MT-SPML may choose what ST-SPML can; what it gains does not depend on how much
circles overlap. One metric for all circles is far behind.

The paper finds SVMs far behind SPML. That is true of its SVMs, which see x - y ("signed" on the pages of the
experiments). With |x - y|, its squares and the cosine, chosen by cross-validation, SVMs are level with diagonal
metrics: behind MT-SPML on Wikipedia, ahead on Debian. On the first five splits, factored metrics without known links
([accuracy](../accuracy/accuracy.md)) are ahead of MT-SVM by
{factored}.

## What the parts of fastspml's recipe are worth

The recipe is the default grid of `fs.select`: tf-idf weights, or others that suit the features; diagonal and factored
metrics, mostly regularised towards the identity instead of zero, so that training starts from the cosine; ranking by
distance and by similarity; and for several tasks a projection of the sums of common and task metrics only. It was
chosen by cross-validation on Debian, Cora and CiteSeer. The table shows the AUC of its best setting, and the change of
AUC if one part is fixed or replaced and everything else is selected anew ([all values](recipe.md)).

{recipe}

## What these results cannot show

- The sections of Debian were selected after looking at results on them, and they helped to choose the recipe. Their
  column is an example, not evidence.
- Results on hidden Wikipedia articles were known before the grid was fixed.
- Results on hidden nodes of two Facebook egos showed that profiles need another grid. Its values come from four other
  egos.
- Selection within each split uses training nodes only.
"""


def read(name: str) -> dict[str, Any]:
    """Return results that a benchmark wrote."""
    return json.loads((RESULTS / name).read_text())


def run_demo() -> dict[str, Any]:
    """Run `fastspml demo`, keep its figure, and return its results."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        if fastspml(["demo", "--json", "-o", f"{folder}/demo"]) != 0:
            raise SystemExit("fastspml demo failed; its message is above.")
        (RESULTS / "demo.svg").write_text(Path(f"{folder}/demo/figure.svg").read_text())
    return json.loads(printed.getvalue())


def similar_sentence(results: dict[str, Any]) -> str:
    """Return words and the words that bench.similar found to be similar to them."""
    intro = f"`similar_features(word, normalised=True)` in {results['nodes']:,} packages, for ten hand-picked words: "
    parts = [f"*{word}*: {', '.join(similar)}" for word, similar in results["similar"].items()]
    return textwrap.fill(intro + "; ".join(parts) + ".", 120, break_on_hyphens=False)


def accuracy_table(accuracy: dict[str, Any]) -> str:
    """Return the AUC of four methods, hits@10 of two, and the hub share of the selected one, as Markdown."""
    columns = {
        "AUC: popularity": ("auc", "popularity"),
        "AUC: cosine": ("auc", "cosine"),
        "AUC: diagonal metric": ("auc", "diagonal"),
        "AUC: `fs.select`": ("auc", "selected"),
        "hits@10: cosine": ("hits", "cosine"),
        "hits@10: `fs.select`": ("hits", "selected"),
        "hub share: `fs.select`": ("hub", "selected"),
    }
    by_case: dict[Any, list[float]] = {}
    for record in accuracy["records"]:
        for measure, value in record["quality"].items():
            by_case.setdefault((record["data"], measure, record["method"]), []).append(value)
    rows = []
    for name in dict.fromkeys(record["data"] for record in accuracy["records"]):
        cells = [by_case[name, *column] for column in columns.values()]
        rows.append([name, *(f"{np.mean(values):.3f}" for values in cells)])
        rows[-1][4] = f"**{_with_error(cells[3])}**"
    return tables.markdown(["data", *columns], rows)


def _with_error(values: Sequence[float]) -> str:
    return "{:.3f} ± {:.3f}".format(*tables.mean_and_error(values))


def anchors_sentence(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the AUC of fastspml beside the best published one, of each published protocol."""
    parts = []
    for name, records in results.items():
        if not anchors.PROTOCOLS[name][1]:
            continue  # no published figure at hand
        auc = float(np.mean([record["fastspml"][0] for record in records]))
        method, published = max(anchors.PROTOCOLS[name][1].items(), key=lambda item: item[1][0])
        parts.append(f"{name}: {auc:.3f} ({method} {published[0]:.3f})")
    return textwrap.fill(f"By published protocols, AUC (as published): {'; '.join(parts)}.", 120)


# What a method can do: learn from links, rank candidates that were not in training, take words without hand-made
# features of pairs, and learn from several networks a part that they share and one for each.
ABILITIES = {
    "cosine": (False, True, True, False),
    "bm25s": (False, True, True, False),
    "LightFM": (True, True, True, False),
    "LightGBM": (True, True, False, False),
    "Vowpal Wabbit": (True, True, True, False),
    "GraphSAGE": (True, True, True, False),
    "PECOS": (True, False, True, False),
    "fastspml": (True, True, True, True),
    "fastspml, select": (True, True, True, True),
    "fastspml, popularity": (True, True, True, True),
}


def rivals_table(records: Sequence[dict[str, Any]]) -> str:
    """Return what each method can do, its accuracy and its seconds, means over data sets, as Markdown."""
    header = ["", "learns from links", "ranks unseen candidates", "no feature engineering", "several networks"]
    data, rows = list(dict.fromkeys(record["data"] for record in records)), []
    for rival, abilities in ABILITIES.items():
        found = [results_page.of(records, name, rival) for name in data]
        means = [f"{np.mean([results_page.mean(part, name) for part in found]):.3f}" for name in ("auc", "recall")]
        seconds = float(np.mean([results_page.seconds(part) for part in found]))
        shown = f"{seconds:.1f}" if seconds >= 0.05 else "< 0.1"
        rows.append([rival, *("yes" if is_able else "no" for is_able in abilities), *means, shown])
    return tables.markdown([*header, "AUC", "recall@10", "CPU seconds"], rows)


def paper_results() -> dict[str, list[dict[str, Any]]]:
    """Return the records of each experiment on all training nodes, one per split and method."""
    by_data = {}
    for name in ("wikipedia", "debian"):
        records = read(f"paper/{name}.json")["records"]
        by_data[name] = [record for record in records if record["size"] == 100]
    records = read("paper/circles.json")["records"]
    everything = list(range(max(len(record["group"]) for record in records)))
    by_data["circles"] = circles.pooled_over_egos(records, everything)
    return by_data


def auc_table(by_data: dict[str, list[dict[str, Any]]]) -> str:
    """Return the AUC of every method on every data set as Markdown."""
    titles = {"wikipedia": "Wikipedia, 3 areas", "debian": "Debian, 7 sections", "circles": "Facebook circles"}
    rows = []
    for method in METHODS:
        row = [method.replace(", paper", ", the paper's recipe")]
        for name in titles:
            values = tables.by_split(by_data[name], method)
            row.append(_with_error(values) if len(values) else "")
        rows.append(row)
    return tables.markdown(["", *titles.values()], rows)


def claims_table(by_data: dict[str, list[dict[str, Any]]]) -> str:
    """Return the paper's claims and their answers as Markdown."""
    return tables.claims_table({name: tables.claims(records, 100) for name, records in by_data.items()})


def speed_table(core: dict[str, Any], speed: dict[str, Any]) -> str:
    """Return training, search and evaluation of fastspml beside other libraries as Markdown."""
    machine, cases, compiled = speed["machine"], speed["limit"]["cases"], core["compilation"]
    n_nodes = speed["ranking"]["auc"]["nodes"]
    limits = [cases[name]["ratio"] for name in ("Debian packages", "200,000 x 100,000 x 60")]
    together = [row["times"] for row in speed["threads"]["rows"]]
    rows = [
        *_training_rows("training a diagonal metric", speed["peers"]["us"], "fastspml, batch 10", PEERS),
        *_training_rows("training a factored metric of rank 32", speed["factored"]["us"], "fastspml", FACTORED_PEERS),
        *_ranking_rows(speed["ranking"]),
    ]
    small, large = (cases[f"{n} x {n} x 50"]["us"] for n in ("10,000", "1,000,000"))
    sentences = [
        f"One thread, {n_nodes:,} Debian packages, on one of {machine['cores']} cores of an {machine['processor']}.",
        f"Training a diagonal metric takes {min(limits):.2f} to {max(limits):.2f} times as long as the same",
        f"loop in C, and gives the same bits. A triplet takes {small:.2f} µs on 10,000 nodes with 10,000 words and",
        f"{large:.2f} µs on a million of each; the difference is cache misses. Two threads are {min(together):.2f} to",
        f"{max(together):.2f} times as fast as one. The first fit, evaluation and prediction on a machine compile for",
        f"about {compiled['first_results_cold_s']:.0f} s, unless `fastspml warm-up` has done so; later processes load",
        f"the compiled code in {compiled['first_results_of_second_process_s']:.1f} s.",
    ]
    table = tables.markdown(["measurement", "fastspml", "other library", "its value", "ratio"], rows)
    return f"{table}\n\n{textwrap.fill(' '.join(sentences), 120)}"


def _training_rows(what: str, micros: dict[str, float], fastspml: str, peers: dict[str, str]) -> list[list[str]]:
    ours = micros[fastspml]
    rows = [["", "", title, f"{micros[name]:.2f}", f"{micros[name] / ours:,.0f}"] for title, name in peers.items()]
    rows[0][:2] = [f"{what}, microseconds per triplet", f"{ours:.2f}"]
    return rows


def _ranking_rows(ranking: dict[str, Any]) -> list[list[str]]:
    rates, auc = ranking["top-10"]["cosine"]["queries per second"], ranking["auc"]
    ours = rates["fastspml, one thread"]
    rows = []
    for title in ("sparse_dot_topn", "scikit-learn"):
        rate = rates[f"{title}, one thread"]
        rows.append(["", "", title, f"{rate:,.0f}", f"{ours / rate:,.0f}"])
    rows[0][:2] = ["exact 10 nearest nodes, queries per second", f"{ours:,.0f}"]
    ours, other = (auc["seconds for all"][name] for name in ("fastspml, one thread", "roc_auc_score loop"))
    title = f"scikit-learn's roc_auc_score in a loop, from {auc['timed nodes']['roc_auc_score loop']} nodes"
    what = f"AUC of {auc['hidden nodes']:,} hidden nodes with links, seconds"
    return [*rows, [what, f"{ours:.1f}", title, f"{other:.0f}", f"{other / ours:,.0f}"]]


def recipe_table(recipe: dict[str, Any]) -> str:
    """Return the AUC of the default grid, and the change of AUC if one part of it is replaced, as Markdown."""
    auc = {(row["variant"], row["data"]): row["auc"] for row in recipe["rows"]}
    data = list(dict.fromkeys(row["data"] for row in recipe["rows"]))
    whole, *variants = dict.fromkeys(row["variant"] for row in recipe["rows"])
    rows: list[list[Any]] = [[whole, *(f"{auc[whole, name]:.3f}" for name in data)]]
    for variant in variants:
        losses = [auc.get((variant, name), np.nan) - auc[whole, name] for name in data]
        rows.append([variant, *("" if np.isnan(loss) else f"{loss:+.3f}" for loss in losses)])
    return tables.markdown(["", *data], rows)


def replace_between(text: str, name: str, new: str) -> str:
    """Return the text with everything between the markers of that name replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no marker <!-- {name} -->; add one, with <!-- end --> after it.")
    return pattern.sub(lambda match: f"{match[1]}{new}\n{match[2]}", text)


def filled(text: str) -> str:
    """Return the text of the README with its tables made from the stored results."""
    accuracy = accuracy_table(read("accuracy/accuracy.json"))
    published = anchors_sentence(read("anchors/anchors.json")["results"])
    text = replace_between(text, "accuracy", f"{accuracy}\n\n{published}")
    text = replace_between(text, "similar", similar_sentence(read("similar.json")))
    text = replace_between(text, "rivals", rivals_table(read("rivals.json")["records"]))
    return replace_between(text, "speed", speed_table(read("core.json"), read("speed/speed.json")))


def summary() -> str:
    """Return the summary of the paper's experiments, made from the stored results."""
    by_data = paper_results()
    return SUMMARY_PAGE.format(
        auc=auc_table(by_data),
        claims=claims_table(by_data),
        recipe=recipe_table(read("paper/recipe.json")),
        factored=_ahead_of_svm(by_data),
        splits=", ".join(f"{name} {len(tables.by_split(records, tables.BEST))}" for name, records in by_data.items()),
    )


def _ahead_of_svm(by_data: dict[str, list[dict[str, Any]]]) -> str:
    """Return by how much factored metrics are ahead of MT-SVM, on the splits that both were measured on."""
    parts = []
    for name, title in (("debian", "Debian, 7 sections"), ("wikipedia", "Wikipedia, 3 areas")):
        measured = [
            r for r in read("accuracy/accuracy.json")["records"] if (r["data"], r["method"]) == (title, "factored")
        ]
        splits = {r["split"]: {"mean": r["quality"]["auc"]} for r in measured}
        records = [r for r in by_data[name] if r["method"] == "MT-SVM" and r["split"] in splits]
        size = max(r["size"] for r in records)
        records += [{"split": s, "size": size, "method": "factored", "auc": auc} for s, auc in splits.items()]
        ahead = tables.difference(records, "factored", "MT-SVM", size=size)
        certainty = "undecided" if tables.answer(ahead) == "undecided" else "at the 5% level"
        parts.append(f"{ahead['mean']:.3f} ± {ahead['error']:.3f} on {name.capitalize()} ({certainty})")
    return " and ".join(parts)


def main() -> None:
    write_results(RESULTS, "demo", run_demo())
    README.write_text(filled(README.read_text()))
    SUMMARY.write_text(summary())


if __name__ == "__main__":
    main()
