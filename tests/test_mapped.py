"""Networks that stay in their file: the same results as in memory, bit for bit, and bounded memory."""

from __future__ import annotations

import errno
import os
import sys

import numpy as np
import pytest

import fastspml as fs
from bench import memory
from fastspml.cli import main
from fastspml.kernels import auc, scanning, scoring
from fastspml.ranking.measures import MEASURES
from fastspml.sparse import mapped
from fastspml.sparse.csr import as_kernel_csr, csr_from_parts
from fastspml.training import layout
from fastspml.vocabulary import align_vocabulary
from tests import naive
from tests.conftest import dense, make_network, open_files

PARTS = ("data", "indices", "indptr")
WORDS = np.array([f"w{f}" for f in range(70)])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Cut small networks into many pieces, too."""
    monkeypatch.setattr(mapped, "PIECE", 37)
    monkeypatch.setattr(layout, "PIECE", 37)


@pytest.fixture
def both(tmp_path):
    """Return the same networks in memory and mapped."""
    networks = fs.synthetic_networks(n_tasks=3, n_nodes=90, n_features=70, words_per_node=9, links_per_node=4)
    fs.write_networks(tmp_path / "n.h5", networks)
    return networks, fs.read_networks(tmp_path / "n.h5", mapped=True)


def assert_same(network, other):
    for mine, others in ((network.features, other.features), (network.adjacency, other.adjacency)):
        for part in PARTS:
            assert np.array_equal(getattr(mine, part), getattr(others, part))
            assert getattr(mine, part).dtype == getattr(others, part).dtype
            assert not getattr(mine, part).flags.writeable


@pytest.mark.parametrize(
    "make",
    [
        lambda network: network.split(0.3, seed=1).train,
        lambda network: network.split(0.3, seed=1).test,
        lambda network: network.subset(np.random.default_rng(0).permutation(network.n_nodes)[:40]),
        lambda network: network.undirected(),
        lambda network: network.undirected().split(0.3).train,
        lambda network: fs.Weighting("tfidf").fit_transform(network),
        lambda network: fs.Weighting("tfidf", min_df=5, max_df=0.5).fit_transform(network),
        lambda network: fs.Weighting("binary").fit_transform(network),
        lambda network: fs.Weighting("l1").fit_transform(network.split(0.3).train),
        lambda network: fs.share_vocabulary([fs.Network([[1]], vocabulary=["w5"]), network.replace(vocabulary=WORDS)])[
            1
        ],
    ],
)
def test_what_is_made_of_a_mapped_network_is_mapped_and_the_same(both, make):
    (one, *_), (other, *_) = both
    got = make(other)
    assert got.is_mapped
    assert not one.is_mapped
    assert_same(make(one), got)


def test_a_network_with_everything_that_goes_wrong(tmp_path):
    fs.write_networks(tmp_path / "n.h5", make_network())
    (got,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    for make in (fs.Network.undirected, lambda network: network.subset([5, 3, 2, 11])):
        assert_same(make(make_network()), make(got))
    empty = got.subset([])
    assert (empty.n_nodes, empty.n_links) == (0, 0)


def test_what_is_made_leaves_no_file_behind(both, tmp_path):
    train = both[1][0].split(0.3).train
    fs.SPML.paper(n_iters=3).fit(train)
    assert os.listdir(tmp_path) == ["n.h5"]
    assert mapped.mapping_of(train.features.data).filename.startswith(str(tmp_path))  # not in some folder in memory


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("weighting", [None, "tfidf"])
def test_several_mapped_tasks_train_to_the_same_bits(both, weighting, n_threads):
    expected, got = (
        fs.MTSPML.paper(n_iters=50, batch_size=70, weighting=weighting, n_threads=n_threads).fit(networks)
        for networks in both
    )
    assert np.array_equal(got.state_.totals, expected.state_.totals)
    assert got.violations_.tolist() == expected.violations_.tolist()


def test_mapped_tasks_over_the_same_nodes_share_their_rows(both):
    first = both[1][0]
    laid_out = layout.stack([first, first.with_links(both[0][1].adjacency, "other")], has_tasks=True)
    assert np.shares_memory(laid_out.rows.values, first.features.data)


def test_mapped_and_other_networks_can_be_mixed(both):
    networks, in_file = both
    got, expected = (
        fs.SPML.paper(n_iters=20).fit([networks[0], in_file[1]]),
        fs.SPML.paper(n_iters=20).fit(networks[:2]),
    )
    assert np.array_equal(got.state_.totals, expected.state_.totals)


def test_a_full_metric_of_a_mapped_network_is_refused(both):
    with pytest.raises(ValueError, match="a full metric needs the features in memory.* without mapped=True"):
        fs.SPML.paper(metric="full").fit(both[1][0])


def test_a_full_disk_costs_a_sentence(both, monkeypatch):
    def full(descriptor, offset, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"0.0 GB for part of a mapped network could not be reserved in .*No space left"):
        both[1][0].split(0.3).train


def test_scratch_files_need_no_reserved_bytes(both, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)  # as on macOS
    (one, *_), (other, *_) = both
    assert_same(one.subset([5, 1]), other.subset([5, 1]))
    got = mapped.in_file(other.features, 1000, np.float64)
    got[:] = 2.0
    assert got.sum() == 2000.0


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([], [(0, 0)]),
        ([0], [(0, 1)]),
        ([3, 2, 1], [(0, 2), (2, 3)]),  # five entries fit, six do not
        ([4, 2, 3], [(0, 1), (1, 3)]),
        ([9, 1, 7], [(0, 1), (1, 2), (2, 3)]),  # a longer row is a range of its own
        ([0, 0, 0, 0, 0, 0, 0], [(0, 5), (5, 7)]),
        ([5, 0, 0, 1], [(0, 3), (3, 4)]),
    ],
)
def test_rows_are_cut_into_ranges_of_at_most_five_rows_and_entries(monkeypatch, lengths, expected):
    monkeypatch.setattr(mapped, "PIECE", 5)
    assert list(mapped.row_ranges(np.cumsum([0, *lengths]))) == expected


def test_rows_are_taken_in_blocks_of_at_most_five_entries(monkeypatch):
    monkeypatch.setattr(mapped, "PIECE", 5)
    matrix = csr_from_parts(np.ones(9, bool), np.tile(np.arange(3, dtype=np.int32), 3), np.arange(4) * 3, (3, 3))
    blocks = []
    mapped.subset_rows(matrix, np.array([2, 0, 1]), lambda block: blocks.append(block.nnz) or block)
    assert blocks == [3, 3, 3]


def test_a_matrix_is_mapped_if_one_of_its_arrays_is(both):
    (plain, *_), (network, *_) = both
    one, other = plain.features, network.features
    assert mapped.is_mapped(other)
    assert not mapped.is_mapped(one)
    assert mapped.is_mapped(csr_from_parts(other.data, one.indices, one.indptr, one.shape))
    assert mapped.is_mapped(csr_from_parts(one.data, other.indices, one.indptr, one.shape))
    assert not mapped.is_mapped(csr_from_parts(one.data, one.indices, other.indptr, one.shape))
    assert mapped.mapping_of(None) is None


@pytest.mark.parametrize("part", ["data", "indices"])
def test_scratch_files_are_beside_the_mapped_file_or_in_the_folder_for_temporary_ones(
    both, tmp_path, monkeypatch, part
):
    (plain, *_), (network, *_) = both
    parts = {name: getattr((network if name == part else plain).features, name) for name in ("data", "indices")}
    matrix = csr_from_parts(parts["data"], parts["indices"], plain.features.indptr, plain.features.shape)
    got = mapped.in_file(matrix, 7, np.int16)
    assert (got.shape, got.dtype, got.nbytes) == ((7,), np.int16, 14)
    assert os.path.dirname(got.filename) == str(tmp_path)
    assert os.listdir(tmp_path) == ["n.h5"]
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    assert os.path.dirname(mapped.in_file(plain.features, 7, np.int16).filename) == str(tmp_path / "temporary")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert os.path.dirname(mapped.in_file(matrix, 7, np.int16).filename) == str(tmp_path / "temporary")


def test_an_empty_scratch_file_has_room_for_one_number(both):
    assert mapped.in_file(both[1][0].features, 0, np.int64).shape == (1,)


def test_columns_of_some_rows_are_counted(both):
    network = both[1][0]
    values = network.features.toarray() > 0
    is_counted = np.arange(network.n_nodes) % 3 == 1
    assert mapped.count_columns(network.features).tolist() == values.sum(axis=0).tolist()
    assert mapped.count_columns(network.features, is_counted).tolist() == values[is_counted].sum(axis=0).tolist()


# ---- a file that changes under its mapping ----------------------------------------------------------------------------


def truncate(path):
    os.truncate(path, path.stat().st_size - 1)


def overwrite_in_place(path):
    with open(path, "r+b") as file:
        file.write(file.read(1))
    os.utime(path, ns=(0, 0))  # a clock that is too coarse could show the same time


@pytest.mark.parametrize("change", [truncate, overwrite_in_place])
@pytest.mark.parametrize(
    "use",
    [
        lambda network: network.split(0.3).train,
        lambda network: network.undirected(),
        lambda network: fs.Weighting("tfidf").fit(network),
        lambda network: fs.SPML.paper(n_iters=3).fit(network),
        lambda network: fs.link_auc(fs.Metric.identity(70), network, [0, 1]),
    ],
    ids=["split", "undirected", "weighting", "fit", "link_auc"],
)
def test_a_file_that_was_changed_after_it_was_mapped_is_not_used(both, tmp_path, use, change):
    network = both[1][0]
    change(tmp_path / "n.h5")
    with pytest.raises(ValueError, match="n.h5 was changed after it was mapped; read it again"):
        use(network)


def test_a_file_that_was_replaced_after_it_was_mapped_is_still_used(both, tmp_path):
    expected, network = both[0][0].undirected(), both[1][0]
    fs.write_networks(tmp_path / "n.h5", make_network(), overwrite=True)
    assert_same(expected, network.undirected())
    (tmp_path / "n.h5").unlink()
    assert_same(expected, network.undirected())


def test_a_mapping_closes_its_file(tmp_path):
    (tmp_path / "x").write_bytes(bytes(100))
    mapping = mapped.FileMap.open(tmp_path / "x")
    part = mapping[10:20].view(np.uint16)
    part.check_unchanged()
    assert mapped.mapping_of(part).status.st_size == 100
    assert bool(open_files(str(tmp_path / "x"))) == (sys.platform == "linux")
    del mapping, part
    assert not open_files(str(tmp_path / "x"))


# ---- ranking by scanning --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("candidates", [None, np.arange(0, 90, 2), [1, 2]])
@pytest.mark.parametrize("weighting", [None, "tfidf"])
def test_scanning_ranks_like_the_index_to_the_bit(both, weighting, candidates, n_threads):
    model = fs.SPML.paper(n_iters=60, weighting=weighting, prior="identity").fit(both[0][0])
    expected, got = (
        fs.link_quality(model, networks[0], np.arange(80), candidates, k=3, n_threads=n_threads) for networks in both
    )
    for name in MEASURES:
        assert np.array_equal(vars(got)[name], vars(expected)[name], equal_nan=True), name
    assert candidates is not None or got.n_defined == 80


@pytest.mark.parametrize("score", ["distance", "similarity"])
@pytest.mark.parametrize("form", ["diagonal", "factored", "full"])
def test_scanning_ranks_like_the_index_by_any_metric(both, monkeypatch, form, score):
    monkeypatch.setattr(mapped, "PIECE", 97)  # several blocks of nodes
    rng = np.random.default_rng(0)
    weights, factors = rng.normal(size=70), rng.normal(size=(70, 5)).astype(np.float32)
    metric = {
        "diagonal": lambda: fs.Metric.diagonal(weights, score=score),
        "factored": lambda: fs.Metric.factored(weights, factors, score=score),
        "full": lambda: fs.Metric.full(factors @ factors.T + np.diag(weights), score=score),
    }[form]()
    nodes = np.arange(both[0][0].n_nodes)
    expected, got = (fs.link_quality(metric, networks[0], nodes, k=3, n_threads=2) for networks in both)
    for name in MEASURES:
        np.testing.assert_allclose(vars(got)[name], vars(expected)[name], rtol=1e-9 if form == "full" else 0)


def test_scanning_ranks_no_links_of_a_node_that_is_linked_to_all_or_to_none(tmp_path):
    links = np.zeros((5, 5), dtype=bool)
    links[0, 1:] = links[2, 1] = True
    fs.write_networks(tmp_path / "n.h5", fs.Network(np.eye(5), links))
    (in_file,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    got = fs.link_quality(fs.Metric.identity(5), in_file, np.arange(5), k=2)
    for name in MEASURES:
        assert np.isnan(vars(got)[name]).tolist() == [True, True, False, True, True], name


def test_scanning_ranks_by_definition(tmp_path):
    network = make_network()
    fs.write_networks(tmp_path / "n.h5", network)
    (in_file,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    X, A = dense(network)
    rng = np.random.default_rng(1)
    root = rng.normal(size=(network.n_features, network.n_features))
    for metric, M in (
        (fs.Metric.identity(network.n_features), np.eye(network.n_features)),  # the twins tie
        (fs.Metric.full(root @ root.T), root @ root.T),
    ):
        got = fs.link_quality(metric, in_file, np.arange(network.n_nodes), k=2)
        for node in range(network.n_nodes):
            scores = -np.round(naive.score_nodes(M, X, X[node]), 9)
            expected = naive.link_quality(scores, A, node, k=2)
            for name, value in expected.items():
                np.testing.assert_allclose(vars(got)[name][node], value, atol=1e-12)


def test_a_scan_may_hold_few_queries(both, monkeypatch):
    monkeypatch.setattr("fastspml.ranking.mapped_ranking.BLOCK_BYTES", 8 * 70 * 3)
    metric = fs.Metric.identity(70)
    expected, got = (fs.link_auc(metric, networks[0], np.arange(10)) for networks in both)
    assert np.array_equal(got, expected, equal_nan=True)


def test_a_weighting_that_the_metric_does_not_expect_is_refused(both):
    model = fs.SPML.paper(n_iters=5, weighting="tfidf").fit(both[0][0])
    with pytest.raises(ValueError, match="has been weighted .* weights plain counts itself"):
        fs.link_auc(model, fs.Weighting("l2").fit_transform(both[1][0]), [0])


def test_score_links_and_count_negatives():
    network = make_network()
    X, A = dense(network)
    weights = np.linspace(0.1, 2.0, network.n_features)
    nodes = np.array([7, 1], dtype=np.uint64)
    table = np.ascontiguousarray((2.0 * X[nodes] * weights).T)
    norms = (X**2 * weights).sum(axis=1)
    links = [np.flatnonzero(A[node]) for node in nodes]
    starts = np.cumsum([0] + [len(linked) for linked in links])
    linked, positives = np.concatenate(links), np.empty(starts[-1])
    queries = scanning.Queries(nodes, table, 0.0, np.empty(2), np.empty(2, np.uint64))
    rows = as_kernel_csr(network.features[linked])
    scanning.score_links(scanning.Block(rows, np.zeros((len(linked), 0)), norms[linked]), queries, starts, positives)
    expected = [naive.score_nodes(np.diag(weights), X, X[node]) for node in nodes]
    for query in range(2):
        got = positives[starts[query] : starts[query + 1]]
        np.testing.assert_allclose(got, expected[query][links[query]], atol=1e-12)
        got.sort()
    passed, ties, n_negative = np.zeros(len(linked) + 2, int), np.zeros(len(linked), int), np.zeros(2, int)
    counts = scanning.Counts(starts, positives, passed, ties, n_negative)
    adjacency = auc.Positives(*as_kernel_csr(network.adjacency)[:2], np.ones(14, bool))
    for first, last in ((0, 5), (5, 14)):
        rows = as_kernel_csr(mapped.rows_between(network.features, first, last))
        block = scanning.Block(rows, np.zeros((last - first, 0)), norms[first:last])
        scanning.count_negatives(block, np.uint64(first), queries, adjacency, counts)
    for query, node in enumerate(nodes):
        negatives = [expected[query][j] for j in range(14) if j != node and not A[node, j]]
        mine = positives[starts[query] : starts[query + 1]]
        assert n_negative[query] == len(negatives)
        places = [naive.first_above(mine, negative) for negative in negatives]
        assert places == [scoring.first_above(mine, len(mine), negative) for negative in negatives]
        got = passed[starts[query] + query : starts[query + 1] + query + 1]
        assert got.tolist() == np.bincount(places, minlength=len(mine) + 1).tolist()


# ---- the command line, and memory -----------------------------------------------------------------------------------


def test_the_command_line_trains_and_evaluates_mapped(tmp_path, capsys):
    fs.write_networks(tmp_path / "n.h5", fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8))
    printed = []
    for name in ("true", "false"):
        run = str(tmp_path / name)
        flags = ["--mapped", name, "--undirected", "true", "--weighting", "tfidf", "--n-iters", "30"]
        assert main(["train", "--networks", str(tmp_path / "n.h5"), "-o", run, *flags]) == 0
        capsys.readouterr()
        assert main(["evaluate", run]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    models = [fs.load_model(tmp_path / name / "model.h5") for name in ("true", "false")]
    assert np.array_equal(models[0].state_.totals, models[1].state_.totals)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA counts mapped memory on Linux only")
def test_a_network_trains_and_is_evaluated_in_less_memory_than_its_file_takes(tmp_path):
    path = tmp_path / "planted.h5"
    memory.write_planted(path, n_nodes=200_000)
    size, headroom = path.stat().st_size, 64_000_000
    assert size > 1.4 * headroom
    work = {"n_iters": 400, "n_queries": 8, "reg": 1e-4, "batch_size": 100, "headroom_bytes": headroom}
    got = memory.in_child(path, mapped=True, **work)
    assert got["peak_bytes"]["VmData"] <= got["limit_bytes"] < got["baseline_bytes"]["VmData"] + size
    assert got["auc"] > 0.8
    with pytest.raises(RuntimeError, match="GB are free; networks can be read with mapped=True"):
        memory.in_child(path, mapped=False, **work)


def test_features_that_a_vocabulary_lacks_are_counted_alike(tmp_path):
    network = make_network(vocabulary=[f"word {f}" for f in range(9)])
    path = tmp_path / "nets.h5"
    fs.write_networks(path, network)
    (in_file,) = fs.read_networks(path, mapped=True)
    words = np.array([f"word {f}" for f in (7, 3, 1)])
    for given in (network, in_file):
        aligned, n_unknown = align_vocabulary(given, words)
        assert n_unknown == 6
        assert (aligned.features != network.features[:, [7, 3, 1]]).nnz == 0
