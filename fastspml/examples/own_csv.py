"""How do I get from my own CSV files to predicted links?

The script writes two small files as an example: documents with an id and a text, and links between ids. Replace them by
your own. The command line imports them; `fastspml import text --help` lists the options. Then the links of a new
text are predicted.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import fastspml as fs
from fastspml.cli import main as fastspml

TOPICS = {
    "bread": "bake bread dough flour yeast oven crust sourdough",
    "soup": "cook soup broth onion carrot pot simmer stock",
    "cake": "bake cake sugar butter cream oven icing sponge",
}
NEW = "A sourdough with much flour, and a dark crust from a hot oven"


def write_csv(folder: Path) -> None:
    """Write 30 recipes with four words of a topic each; recipes of a topic link to the next three."""
    with open(folder / "recipes.csv", "w", newline="") as texts, open(folder / "links.csv", "w", newline="") as links:
        documents, edges = csv.writer(texts), csv.writer(links)
        documents.writerow(["id", "text"])
        for topic, text in TOPICS.items():
            words = text.split() * 3
            for i in range(10):
                documents.writerow([f"{topic}-{i}", " ".join(words[i : i + 4])])
                edges.writerows([f"{topic}-{i}", f"{topic}-{(i + step) % 10}"] for step in (1, 2, 3))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_csv(folder)
        files = [str(folder / "recipes.csv"), str(folder / "links.csv")]
        fastspml(["import", "text", *files, "-o", str(folder / "recipes.h5")])
        (recipes,) = fs.read_networks(folder / "recipes.h5")

    split = recipes.split(test_size=5)  # pretend that five recipes are new: hide them with all their links
    model = fs.SPML(n_iters=2000).fit(split.train)
    print(f"AUC of the five: {fs.link_quality(model, recipes, split.test_nodes).means()['auc']:.2f}")

    assert recipes.tokenizer is not None
    assert recipes.vocabulary is not None
    counts = recipes.tokenizer.count([NEW], recipes.vocabulary)
    print(f"\n{NEW}:")
    for link in model.predict_links(recipes, counts, k=3, reasons=3):
        print(f"{link.candidate}, because of {', '.join(reason.feature for reason in link.reasons)}")


if __name__ == "__main__":
    main()
