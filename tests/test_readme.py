"""The README is short, its example runs, its links lead somewhere, and its figures are those of the stored results."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pandas
import pytest

import fastspml as fs
from bench import readme
from bench.paper import tables

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "data" / "README.md",
    *sorted((ROOT / ".github").glob("*.md")),
    *sorted((ROOT / "bench" / "results").rglob("*.md")),
]


def texts_of(network):
    """Return a text of the words of each node."""
    words, rows = network.vocabulary, network.features
    return [" ".join(words[rows.indices[p:q]]) for p, q in itertools.pairwise(rows.indptr)]


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = fs.datasets.debian()[0]
    papers = pandas.DataFrame({"id": first.nodes, "abstract": texts_of(first)})
    sources, targets = first.adjacency.nonzero()
    citations = pandas.DataFrame({"citing": first.nodes[sources], "cited": first.nodes[targets]})
    names = {"papers": papers, "citations": citations, "new": papers[:3]}
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    exec(code.replace("SPML()", "SPML(n_iters=160)"), names)  # few iterations, to be quick
    printed = capsys.readouterr().out
    assert "auc" in printed
    table = printed[printed.index("node,candidate,score,probability,") :].splitlines()
    assert len([line for line in table[1 : 1 + 3 * 10] if line.count(",") >= 4]) == 3 * 10


def test_the_first_two_shell_blocks_are_the_two_commands():
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks == ["pip install . && fastspml demo\n", "pip install '.[test]' && pytest\n"]


def test_it_is_short():
    assert len(README.read_text().splitlines()) <= 168


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page):
    targets = re.findall(r"\]\(([^)#\s]+)\)", page.read_text())
    local = [target for target in targets if not target.startswith(("http://", "https://"))]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_its_tables_are_made_from_the_stored_results():
    assert readme.filled(README.read_text()) == README.read_text()


def test_the_summary_of_the_paper_is_made_from_the_stored_results():
    assert readme.summary() == readme.SUMMARY.read_text()


def test_a_table_without_a_place_is_reported():
    with pytest.raises(SystemExit, match="no marker <!-- speed -->"):
        readme.replace_between("<!-- accuracy -->\n<!-- end -->", "speed", "new")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("wikipedia", "gained {} AUC on Wikipedia"),
        ("debian", "{} on Debian"),
        ("circles", "and {} on Facebook circles"),
    ],
)
def test_what_it_says_of_mtspml_was_measured(data, sentence):
    ahead = tables.difference(readme.paper_results()[data], "MT-SPML", "ST-SPML")["mean"]
    assert sentence.format(f"{ahead:.3f}") in " ".join(README.read_text().split())
