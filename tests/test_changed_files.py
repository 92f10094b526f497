"""Mapped files that are changed in place: whatever reads them refuses, instead of dying of SIGBUS or using garbage."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import fastspml as fs
from fastspml.leaks import check_leaks
from fastspml.sparse import mapped

SENTENCE = "was changed after it was mapped; read it again, and do not change it meanwhile"
PARTS = ("data", "indices", "indptr")
IDENTITY = fs.Metric.identity(70)


def fitted():
    return fs.SPML.paper(n_iters=20).fit(plain())


def plain():
    return fs.synthetic_networks(n_tasks=1, n_nodes=90, n_features=70, words_per_node=9, links_per_node=4)[0]


USES = {
    "features": lambda network, path: network.features,
    "adjacency": lambda network, path: network.adjacency,
    "n_links": lambda network, path: network.n_links,
    "degrees": lambda network, path: network.degrees,
    "n_triplets": lambda network, path: network.n_triplets,
    "repr": lambda network, path: repr(network),
    "html": lambda network, path: network._repr_html_(),
    "pickle": lambda network, path: pickle.dumps(network),
    "copy": lambda network, path: copy.deepcopy(network),
    "subset": lambda network, path: network.subset([1, 2]),
    "split": lambda network, path: network.split(0.3).train,
    "folds": lambda network, path: network.folds(3)[0].train,
    "undirected": lambda network, path: network.undirected(),
    "share_vocabulary": lambda network, path: fs.share_vocabulary(
        [fs.Network([[1]], vocabulary=["w5"]), network.replace(vocabulary=np.array([f"w{f}" for f in range(70)]))]
    ),
    "check_leaks": lambda network, path: check_leaks([network], [plain()]),
    "weighting fit": lambda network, path: fs.Weighting("tfidf").fit(network),
    "weighting transform": lambda network, path: fs.Weighting("l2").fit(plain()).transform(network),
    "fit": lambda network, path: fs.SPML(n_iters=3).fit(network),
    "fit of tasks": lambda network, path: fs.MTSPML.paper(n_iters=3).fit([network, plain().replace(name="other")]),
    "partial_fit": lambda network, path: fitted().partial_fit(network, n_iters=3),
    "objective": lambda network, path: fitted().objective(network),
    "rows": lambda network, path: IDENTITY.rows(network),
    "link_auc": lambda network, path: fs.link_auc(IDENTITY, network, [0, 1]),
    "link_quality": lambda network, path: fs.link_quality(IDENTITY, network, [0, 1]),
    "connect": lambda network, path: fs.connect(IDENTITY, network, 3),
    "index": lambda network, path: fs.LinkIndex(IDENTITY, network),
    "query": lambda network, path: fs.LinkIndex(IDENTITY, plain()).query(network),
    "predict_links": lambda network, path: fs.predict_links(IDENTITY, network, np.eye(70)[:1], k=3),
    "write_networks": lambda network, path: fs.write_networks(path, network),
    "write_h5ad": lambda network, path: fs.io.write_h5ad(path, network),
    "to_anndata": lambda network, path: network.to_anndata(),
    "to_networkx": lambda network, path: network.to_networkx(),
}


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(mapped, "PIECE", 37)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_network_whose_file_was_changed_is_not_used(tmp_path, small_pieces, use):
    fs.write_networks(tmp_path / "n.h5", plain())
    (network,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    use(network, tmp_path / "before.h5")
    os.utime(tmp_path / "n.h5", ns=(0, 0))
    with pytest.raises(ValueError, match=f"n.h5 {SENTENCE}"):
        use(network, tmp_path / "after.h5")
    assert not (tmp_path / "after.h5").exists()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("matrix", ["features", "adjacency"])
def test_each_array_of_a_network_is_checked(tmp_path, matrix, part):
    fs.write_networks(tmp_path / "n.h5", plain())
    (network,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    mixed, other = copy.copy(getattr(plain(), matrix)), getattr(network, matrix)
    setattr(mixed, part, getattr(other, part))
    got = plain().replace(**{matrix: mixed})
    assert getattr(got, matrix) is mixed
    os.utime(tmp_path / "n.h5", ns=(0, 0))
    with pytest.raises(ValueError, match=SENTENCE):
        getattr(got, matrix)


def test_what_is_known_of_a_changed_file_needs_no_file(tmp_path):
    fs.write_networks(tmp_path / "n.h5", plain())
    (network,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    os.truncate(tmp_path / "n.h5", 10)
    assert (network.n_nodes, network.n_features, network.n_sparse_features, network.is_mapped) == (90, 70, 70, True)


def mapped_index(path, form="diagonal"):
    metric = {
        "diagonal": IDENTITY,
        "full": fs.Metric.full(np.eye(70)),
        "links": fs.Metric.diagonal(np.ones(70), neighbour_weight=0.5),
    }[form]
    fs.LinkIndex(metric, plain()).save(path)
    return fs.LinkIndex.load(path, mapped=True)


INDEX_USES = {
    "query": lambda index, path: index.query(np.eye(70)[:2], k=3),
    "neighbours": lambda index, path: index.neighbours(3),
    "rows": lambda index, path: index.rows(),
    "without_links_of": lambda index, path: index.without_links_of(np.array([1])),
    "known_links": lambda index, path: index.known_links(),
    "add": lambda index, path: index.add(np.eye(70)),
    "remove": lambda index, path: index.remove([3]),
    "save": lambda index, path: index.save(path),
    "pickle": lambda index, path: pickle.dumps(index),
}


@pytest.mark.parametrize("use", INDEX_USES.values(), ids=INDEX_USES)
@pytest.mark.parametrize("form", ["diagonal", "full", "links"])
def test_an_index_whose_file_was_changed_is_not_used(tmp_path, form, use):
    use(mapped_index(tmp_path / "before.h5", form), tmp_path / "copy.h5")
    index = mapped_index(tmp_path / "i.h5", form)
    os.utime(tmp_path / "i.h5", ns=(0, 0))
    assert (index.n_nodes, len(index.nodes), repr(index)[:9]) == (90, 90, "LinkIndex")
    with pytest.raises(ValueError, match=f"i.h5 {SENTENCE}"):
        use(index, tmp_path / "after.h5")
    assert index.n_nodes == 90
    assert not (tmp_path / "after.h5").exists()


@pytest.mark.parametrize("part", ["rows", "by_feature", "known"])
def test_each_matrix_of_an_index_is_checked(tmp_path, part):
    index = mapped_index(tmp_path / "i.h5", "links")
    other = mapped_index(tmp_path / "other.h5", "links")
    scores, others = (one._state[0].segments[0].scores for one in (index, other))
    if part == "known":
        object.__setattr__(scores, "known", others.known)
    else:
        object.__setattr__(scores.nodes.indexed, part, getattr(others.nodes.indexed, part))
    index.query(np.eye(70)[:1], k=2)
    os.utime(tmp_path / "other.h5", ns=(0, 0))
    with pytest.raises(ValueError, match=f"other.h5 {SENTENCE}"):
        index.query(np.eye(70)[:1], k=2)


@pytest.mark.parametrize("use", ["fs.SPML(n_iters=20).fit(network)", "index.query(rows, k=2)"])
def test_a_truncated_file_costs_a_sentence_and_not_the_process(tmp_path, use):
    program = (
        "import os\nimport numpy as np\nimport fastspml as fs\n"
        "fs.write_networks('m.h5', fs.synthetic_networks(n_tasks=1, n_nodes=2000, n_features=900))\n"
        "(network,) = fs.read_networks('m.h5', mapped=True)\n"
        "fs.LinkIndex(fs.Metric.identity(900), network).save('i.h5')\n"
        "index, rows = fs.LinkIndex.load('i.h5'), np.eye(900)[:2]\n"
        "os.truncate('m.h5', 5000)\nos.truncate('i.h5', 5000)\n"
        f"try: {use}\nexcept ValueError as error: print(error)"
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert SENTENCE in done.stdout, done
