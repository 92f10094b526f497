"""Make the README's picture and tables again: python -m bench.readme.

Runs `fastspml demo` on the bundled data and keeps its figure as bench/results/demo.svg; the tables between the markers
of README.md come from what bench.accuracy, bench.anchors, bench.paper, bench.speed and bench.core left behind.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import fastspml as fs
from bench import anchors
from bench.environment import RESULTS, write_results
from bench.paper import circles, tables
from fastspml.cli import main as fastspml

# What the table of speed shows of bench.speed's peers.
PEERS = {
    "fastspml": "fastspml, batch 10",
    "SciPy, vectorised as one would write it": "SciPy, as one would write it, batch 10",
    "SciPy, tuned": "SciPy, tuned, batch 10",
    "PyTorch, dense rows": "PyTorch, dense rows, batch 10",
    "PyTorch, embedding bags": "PyTorch, embedding bags, batch 10",
    "scikit-learn's SGD, with writing triplets out": (
        "scikit-learn SGD, a pass over triplets written out, with the writing out"
    ),
    "LIBLINEAR, with writing triplets out": ("LIBLINEAR on triplets written out, tolerance 0.1, with the writing out"),
}

# Words of the bundled data whose similar words the README shows.
SIMILAR_TO = ["genome", "music", "encryption", "font", "audio", "photo"]

README = Path(__file__).parent.parent / "README.md"
METHODS = [
    "Euclid", "popularity", "cosine tf-idf", "ST-SVM", "U-SVM", "MT-SVM", "ST-SPML, paper", "U-SPML, paper",
    "MT-SPML, paper", "ST-SPML", "U-SPML", "MT-SPML",
]  # fmt: skip


def read(name: str) -> dict[str, Any]:
    """Return results that a benchmark left behind."""
    return json.loads((RESULTS / name).read_text())


def run_demo() -> dict[str, Any]:
    """Return the results of `fastspml demo`, and keep its figure."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        if fastspml(["demo", "--json", "-o", f"{folder}/demo"]) != 0:
            raise SystemExit("the demo failed")
        (RESULTS / "demo.svg").write_text(Path(f"{folder}/demo/figure.svg").read_text())
        metric = fs.load_model(f"{folder}/demo/model.h5").common_metric_
    similar = {word: metric.similar_features(word, 7).feature.tolist() for word in SIMILAR_TO}
    return json.loads(printed.getvalue()) | {"similar": similar}


def similar_table(demo: dict[str, Any]) -> str:
    """Return the words that the demo's model treats as similar to some others as Markdown."""
    rows = [[word, ", ".join(similar)] for word, similar in demo["similar"].items()]
    return tables.markdown(["word", "similar words"], rows)


def accuracy_table(accuracy: dict[str, Any]) -> str:
    """Return AUC, hits@10 and the share of lists that one node is in, by data set and method, as Markdown."""
    titles = {"popularity": "popularity", "cosine": "cosine", "diagonal": "diagonal metric", "selected": "fs.select"}
    rows = []
    for name in dict.fromkeys(record["data"] for record in accuracy["records"]):
        for method, title in titles.items():
            values = [r["quality"] for r in accuracy["records"] if (r["data"], r["method"]) == (name, method)]
            cells = [f"{np.mean([value[measure] for value in values]):.3f}" for measure in ("auc", "hits")]
            error = tables.mean_and_error([value["auc"] for value in values])[1]
            hub = f"{np.mean([value['hub'] for value in values]):.0%}"
            title_of_data = f"{name} ({len(values)} splits)" if method == "popularity" else ""
            rows.append([title_of_data, title, f"{cells[0]} ± {error:.3f}", cells[1], hub])
    return tables.markdown(["data", "method", "AUC", "hits@10", "most suggested node"], rows)


def anchors_table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return published protocols: AUC and average precision of fastspml beside the published ones, as Markdown."""
    rows = []
    for name, records in results.items():
        auc, ap = (float(np.mean([record["fastspml"][c] for record in records])) for c in (0, 1))
        seconds = float(np.median([record["seconds"] for record in records]))
        rows.append([name, "fastspml", f"{auc:.3f}", f"{ap:.3f}", f"{seconds:.0f}"])
        for method, published in anchors.PROTOCOLS[name][2].items():
            rows.append(["", f"{method}, published", *(f"{value:.3f}" for value in published), ""])
    return tables.markdown(["protocol", "method", "AUC", "average precision", "seconds"], rows)


def paper_results() -> dict[str, list[dict[str, Any]]]:
    """Return the records of each experiment on all training nodes, one a split and method."""
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
            row.append("{:.3f} ± {:.3f}".format(*tables.mean_and_error(values)) if len(values) else "")
        rows.append(row)
    return tables.markdown(["", *titles.values()], rows)


def claims_table(by_data: dict[str, list[dict[str, Any]]]) -> str:
    """Return the paper's claims and their answers as Markdown."""
    return tables.claims_table({name: tables.claims(records, 100) for name, records in by_data.items()})


def speed_table(core: dict[str, Any], speed: dict[str, Any]) -> str:
    """Return what bench.speed and bench.core measured as Markdown."""
    machine, cases = speed["machine"], speed["limit"]["cases"]
    micros = speed["peers"]["us"]
    ours = micros["fastspml, batch 10"]
    found, auc = speed["ranking"]["top-10"]["cosine"]["queries per second"], speed["ranking"]["auc"]
    small, large = (cases[name] for name in ("10,000 x 10,000 x 50", "1,000,000 x 1,000,000 x 50"))
    together = [row["times"] for row in speed["threads"]["rows"]]
    compiled = core["compilation"]
    memory = core["growth"][-1]
    return "\n\n".join(
        [
            f"Measured on {machine['cores']} cores of an {machine['processor']}, Python {machine['python']}, "
            f"numba {machine['numba']}. Ratios can be compared, times cannot.",
            tables.markdown(
                ["training on Debian's packages, batches of 10, one thread", "microseconds a triplet", "fastspml is"],
                [[title, f"{micros[name]:.2f}", _faster(micros[name] / ours)] for title, name in PEERS.items()],
            ),
            tables.markdown(
                [f"the 10 nearest of {speed['ranking']['top-10']['cosine']['nodes']:,} packages", "queries a second"],
                [[name + _recall(speed, name), f"{value:,.0f}"] for name, value in found.items()],
            ),
            f"The same loop written in C takes {1 / cases['Debian packages']['ratio']:.2f} times as long on Debian's "
            f"packages and {1 / cases['200,000 x 100,000 x 60']['ratio']:.2f} times on 200,000 nodes with 100,000 "
            f"words, and gives the same bits. A triplet takes {small['us']:.2f} us on 10,000 nodes with 10,000 words "
            f"and {large['us']:.2f} us on a million of each: what grows is cache misses. Two threads are "
            f"{min(together):.2f} to {max(together):.2f} times as fast as one, in batches of 10 to 1,000. Links of "
            f"{auc['hidden nodes']:,} hidden packages are ranked among all, and their AUC taken, in "
            f"{auc['seconds for all']['fastspml, two threads']:.0f} s on two threads.",
            f"A fit on a million nodes takes {memory['fit_growth_mb']:.0f} MB beside the network's "
            f"{memory['network_mb']:.0f}; attributes of less than 256 MB are copied, for speed. MT-SPML on three tasks "
            f"of the size of the paper's Wikipedia areas, 5500 iterations of 10: "
            f"{core['wikipedia_size']['seconds']:.2f} s. The first fit on a machine compiles for "
            f"{compiled['first_fit_cold_s']:.0f} s; later processes load the compiled code "
            f"({compiled['first_fit_of_second_process_s']:.1f} s).",
        ]
    )


def _recall(speed: dict[str, Any], name: str) -> str:
    """Return, of a search that is not exact, how much it finds."""
    recall = speed["ranking"]["top-10"]["cosine"]["recall"].get(name)
    return f" (finds {recall:.0%} of them)" if recall else ""


def _faster(times: float) -> str:
    return "" if times == 1.0 else f"{times:,.0f} times as fast" if times >= 10 else f"{times:.1f} times as fast"


def recipe_table(recipe: dict[str, Any]) -> str:
    """Return what the recipe's ingredients are worth as Markdown: the loss of AUC where each is changed."""
    auc = {(row["variant"], row["data"]): row["auc"] for row in recipe["rows"]}
    data = list(dict.fromkeys(row["data"] for row in recipe["rows"]))
    rows: list[list[Any]] = [["the recipe", *(f"{auc['the recipe', name]:.3f}" for name in data)]]
    for variant in dict.fromkeys(row["variant"] for row in recipe["rows"]):
        if variant != "the recipe":
            losses = [auc.get((variant, name), np.nan) - auc["the recipe", name] for name in data]
            rows.append([variant, *("" if np.isnan(loss) else f"{loss:+.3f}" for loss in losses)])
    return tables.markdown(["", *data], rows)


def replace_between(text: str, name: str, new: str) -> str:
    """Return the text with what stands between the markers of that name replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no place called {name}")
    return pattern.sub(lambda match: f"{match[1]}{new}\n{match[2]}", text)


def main() -> None:
    demo = run_demo()
    write_results(RESULTS, "demo", demo)
    by_data = paper_results()
    parts = {
        "accuracy": accuracy_table(read("accuracy/accuracy.json")),
        "anchors": anchors_table(read("anchors/anchors.json")["results"]),
        "similar": similar_table(demo),
        "auc": auc_table(by_data),
        "claims": claims_table(by_data),
        "recipe": recipe_table(read("paper/recipe.json")),
        "speed": speed_table(read("core.json"), read("speed/speed.json")),
    }
    text = README.read_text()
    for name, part in parts.items():
        text = replace_between(text, name, part)
    README.write_text(text)


if __name__ == "__main__":
    main()
