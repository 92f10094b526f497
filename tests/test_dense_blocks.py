"""Dense blocks: sentence embeddings beside words, from the network to predictions, in memory, in files and mapped."""

from __future__ import annotations

import json
import pickle

import anndata
import h5py
import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.cli import main
from fastspml.io.readers.text import read_text
from fastspml.ranking.indexed_rows import ranked_norms
from fastspml.sparse import mapped
from fastspml.vocabulary import align_vocabulary
from fastspml.weighting import KINDS
from tests import naive
from tests.conftest import make_network, with_vectors

COUNTS = sparse.csr_array(np.array([[3, 0, 1], [0, 0, 0], [1, 1, 0]]))
VECTORS = np.array([[0.5, -1.0], [2.0, 0.0], [0.0, 0.0]], dtype=np.float32)
OTHERS = np.array([[1.0], [-3.0], [2.0]], dtype=np.float32)
WORDS = ["cat", "dog", "emu"]


# ---- networks -------------------------------------------------------------------------------------------------------


def test_columns_of_sparse_blocks_come_first():
    got = fs.Network([VECTORS, COUNTS, OTHERS, 2 * COUNTS])
    words = COUNTS.toarray()
    assert got.features.toarray().tolist() == np.hstack([words, 2 * words, VECTORS, OTHERS]).tolist()
    assert (got.dense_blocks, got.n_sparse_features, got.n_features) == ((2, 1), 6, 9)


def test_features_of_blocks_are_canonical():
    got = fs.Network([COUNTS, VECTORS]).features
    assert got.has_canonical_format
    assert got.nnz == 7  # zeros of dense blocks are not stored
    assert (got.indptr.dtype, got.indices.dtype) == (np.int64, np.int32)
    assert not any(part.flags.writeable for part in (got.data, got.indices, got.indptr))


@pytest.mark.parametrize("words", [[], [COUNTS]])
def test_blocks_are_copied(words):
    vectors = np.ones((3, 2), dtype=np.float32)
    network = fs.Network([*words, vectors])
    vectors[:] = 7.0
    assert network.features[0, network.n_sparse_features] == 1.0


@pytest.mark.parametrize(
    ("counts", "vectors", "expected"),
    [("int64", "f4", "f4"), ("int64", "f2", "f4"), ("f4", "f4", "f4"), ("int64", "f8", "f8"), ("f8", "f4", "f8")],
)
def test_types_of_mixed_blocks(counts, vectors, expected):
    assert fs.Network([COUNTS.astype(counts), VECTORS.astype(vectors)]).features.dtype == np.dtype(expected)


@pytest.mark.parametrize("features", [VECTORS, VECTORS.tolist(), list(VECTORS), COUNTS, [COUNTS, COUNTS]])
def test_a_matrix_and_sparse_blocks_make_an_ordinary_network(features):
    network = fs.Network(features)
    assert network.dense_blocks == ()
    assert network.n_sparse_features == network.n_features


def test_dense_blocks_alone():
    got = fs.Network([VECTORS], vocabulary=[])
    assert (got.dense_blocks, got.n_sparse_features) == ((2,), 0)
    assert got.vocabulary.tolist() == ["dense_0", "dense_1"]


def test_a_vocabulary_of_words_names_dense_features_by_number():
    got = fs.Network([COUNTS, VECTORS, OTHERS], vocabulary=WORDS).vocabulary
    assert got.tolist() == [*WORDS, "dense_0", "dense_1", "dense_2"]


def test_a_vocabulary_of_words_names_a_single_dense_feature():
    assert fs.Network([COUNTS, OTHERS], vocabulary=WORDS).vocabulary.tolist() == [*WORDS, "dense_0"]


def test_a_vocabulary_may_name_dense_features():
    got = fs.Network([COUNTS, VECTORS], vocabulary=[*WORDS, "warm", "round"]).vocabulary
    assert got.tolist() == [*WORDS, "warm", "round"]


def test_numbers_as_words_become_text_beside_dense_features():
    assert fs.Network([COUNTS, VECTORS], vocabulary=[7, 8, 9]).vocabulary.tolist()[2:4] == ["9", "dense_0"]


def test_repr_tells_dense_features():
    assert repr(fs.Network([COUNTS, VECTORS])) == "Network('network': 3 nodes, 0 links, 5 features, 2 of them dense)"


@pytest.mark.parametrize(
    "make",
    [
        lambda network: network.subset([5, 1]),
        lambda network: network.split(0.3).train,
        lambda network: network.split(0.3).test,
        lambda network: network.folds(3)[0].train,
        lambda network: network.undirected(),
        lambda network: network.with_links(network.adjacency.T),
        lambda network: network.replace(name="other"),
        lambda network: fs.share_vocabulary([network])[0],
        lambda network: fs.Weighting("l2").fit_transform(network),
        lambda network: pickle.loads(pickle.dumps(network)),
        lambda network: fs.Network.from_anndata(network.to_anndata()),
    ],
)
def test_networks_made_of_a_network_have_its_dense_blocks(make):
    network = with_vectors(widths=(4, 2), vocabulary=list("abcdefghi"))
    got = make(network)
    assert got.dense_blocks == (4, 2)
    assert got.vocabulary.tolist() == network.vocabulary.tolist()


def test_from_edges_takes_blocks():
    got = fs.Network.from_edges([COUNTS, VECTORS], [(0, 2)], name="edges", vocabulary=WORDS)
    assert (got.dense_blocks, got.n_links, got.name, len(got.vocabulary)) == ((2,), 2, "edges", 5)


def test_networks_pickled_before_have_no_dense_blocks():
    network = make_network()
    del network.__dict__["dense_blocks"]
    assert pickle.loads(pickle.dumps(network)).dense_blocks == ()


def test_a_shared_vocabulary_has_the_words_of_all_and_then_dense_features():
    a = fs.Network([COUNTS, VECTORS], name="a", vocabulary=WORDS)
    b = fs.Network([COUNTS, VECTORS], name="b", vocabulary=["fox", "cat", "owl"])
    for network, own in zip(fs.share_vocabulary([a, b]), (WORDS, ["fox", "cat", "owl"]), strict=True):
        assert network.vocabulary.tolist() == [*WORDS, "fox", "owl", "dense_0", "dense_1"]
        assert network.dense_blocks == (2,)
        columns = [network.vocabulary.tolist().index(word) for word in [*own, "dense_0", "dense_1"]]
        assert network.features.toarray()[:, columns].tolist() == np.hstack([COUNTS.toarray(), VECTORS]).tolist()


def test_dense_features_keep_their_place_in_an_aligned_vocabulary():
    network = fs.Network([COUNTS, VECTORS], vocabulary=WORDS)
    got, n_unknown = align_vocabulary(network, np.array(["emu", "yak", "dense_0", "dense_1"]))
    assert n_unknown == 2
    assert got.dense_blocks == (2,)
    assert got.features.toarray().tolist() == np.hstack([COUNTS.toarray()[:, [2]], 0 * OTHERS, VECTORS]).tolist()


NETWORK = fs.Network([COUNTS, VECTORS], name="a", vocabulary=WORDS)
PLAIN = fs.Network(np.hstack([COUNTS.toarray(), VECTORS]), name="plain", vocabulary=[*WORDS, "warm", "round"])
NAMED = fs.Network([COUNTS, VECTORS], name="named", vocabulary=[*WORDS, "warm", "round"])


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda: fs.Network([COUNTS, VECTORS[:2]]), ValueError, "the blocks of features have 3 and 2 rows; all must describe the same nodes"),
        (lambda: fs.Network([COUNTS, np.full((3, 2), np.nan)]), ValueError, "features must be finite, but row 0 holds a NaN"),
        (lambda: fs.Network([COUNTS, VECTORS.astype(str)]), TypeError, "features must hold numbers"),
        (lambda: fs.Network([COUNTS, VECTORS[0]]), ValueError, r"features must have two dimensions, got shape \(2,\)"),
        (lambda: fs.Network([COUNTS, np.zeros((3, 0))]), ValueError, "a dense block of features has no columns; leave it out"),
        (lambda: fs.Network([COUNTS, VECTORS], vocabulary=WORDS[:2]), ValueError, r"vocabulary has shape \(2,\), but there are 5 features"),
        (lambda: fs.Network([COUNTS, VECTORS], vocabulary=["cat", "dog", "dense_1"]), ValueError, "'dense_1' occurs 2 times"),
        (lambda: fs.Network([COUNTS, VECTORS], vocabulary=[0.5, 1, 2]), TypeError, "vocabulary must be strings or integers"),
        (lambda: fs.SPML.paper().fit([NETWORK, PLAIN]), ValueError, "'a' has dense blocks of 2 features and 'plain' has no dense blocks; tasks must have the same"),
        (lambda: fs.share_vocabulary([NETWORK, PLAIN]), ValueError, "'a' has dense blocks of 2 features and 'plain' has no dense blocks"),
        (lambda: fs.share_vocabulary([NETWORK, NAMED]), ValueError, "the dense features of 'a' and 'named' have different names"),
        (lambda: align_vocabulary(NETWORK, NAMED.vocabulary), ValueError, "'a' has 2 dense features, 'dense_0' to 'dense_1', but the vocabulary does not end with their names"),
        (lambda: fs.Weighting().fit(NETWORK).transform(PLAIN), ValueError, "'plain' has no dense blocks, but the weighting was fitted on networks with dense blocks of 2 features"),
        (lambda: fs.Weighting().fit(PLAIN.replace(features=abs(PLAIN.features))).transform(NETWORK), ValueError, "'a' has dense blocks of 2 features, but the weighting was fitted on networks with no dense blocks"),
        (lambda: fs.Weighting().fit(fs.Network([-COUNTS, VECTORS])), ValueError, r"has negative features \(-3.0\), which tf-idf"),
        (lambda: fs.Weighting().fit(NETWORK).transform([-COUNTS, VECTORS]), ValueError, r"rows has negative features \(-3.0\)"),
        (lambda: fs.Weighting("l2").fit(NETWORK).transform([VECTORS, COUNTS.toarray()]), ValueError, r"rows has dense blocks of 2 \+ 3 features, but the weighting"),
        (lambda: fs.Weighting("l2").fit(NETWORK).transform([COUNTS, OTHERS]), ValueError, "rows has 4 features, but the weighting was fitted on 5"),
    ],
)  # fmt: skip
def test_mistakes_cost_a_sentence(act, error, sentence):
    with pytest.raises(error, match=sentence):
        act()


# ---- weighting ------------------------------------------------------------------------------------------------------


def scaled(kind, block):
    """Return a dense block as a weighting makes it, row by row."""
    if kind in ("none", "binary"):
        return block
    norms = np.linalg.norm(block, ord=1 if kind == "l1" else 2, axis=1, keepdims=True)
    return block / np.where(norms == 0.0, 1.0, norms)


def expected_rows(kind, network):
    features, n_words = network.features.toarray().astype(float), network.n_sparse_features
    words = features[:, :n_words]
    parts, start = [naive.weighting(kind, [words], words)], n_words
    for width in network.dense_blocks:
        parts.append(scaled(kind, features[:, start : start + width]))
        start += width
    return np.hstack(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_every_dense_block_are_weighted_apart(kind):
    network = with_vectors(widths=(4, 2))
    got = fs.Weighting(kind).fit_transform(network).features
    assert got.dtype == np.float32
    np.testing.assert_allclose(got.toarray(), expected_rows(kind, network), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_doubles_stay_doubles(kind):
    network = fs.Network([COUNTS, VECTORS.astype(float)])
    got = fs.Weighting(kind).fit_transform(network).features
    assert got.dtype == np.float64
    np.testing.assert_allclose(got.toarray(), expected_rows(kind, network), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_document_frequencies_cut_words_only(kind):
    network = with_vectors(widths=(4,))
    weighting = fs.Weighting(kind, min_df=6, max_df=0.6).fit(network)
    got = weighting.transform(network).features.toarray()
    df = np.count_nonzero(network.features.toarray()[:, :9], axis=0)
    is_cut = (df < 6) | (df > 0.6 * 14)
    assert 0 < is_cut.sum() < 9
    assert not got[:, :9][:, is_cut].any()
    np.testing.assert_allclose(got[:, 9:], scaled(kind, network.features.toarray()[:, 9:]), rtol=1e-6)
    assert weighting.idf_[9:].tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "rows",
    [
        [COUNTS, VECTORS],
        [VECTORS, COUNTS],
        (COUNTS.toarray(), VECTORS),
        np.hstack([COUNTS.toarray(), VECTORS]).astype(np.float32),
        sparse.hstack([COUNTS, VECTORS]).astype(np.float32),
    ],
)
def test_plain_rows_are_weighted_as_networks_are(rows):
    weighting = fs.Weighting().fit(NETWORK)
    assert weighting.transform(rows).toarray().tolist() == weighting.transform(NETWORK).features.toarray().tolist()


def test_one_row_of_blocks_may_hold_a_vector():
    weighting = fs.Weighting("l2").fit(NETWORK)
    assert weighting.transform([COUNTS[[0]], VECTORS[0]]).toarray().tolist() == (
        weighting.transform(NETWORK).features[[0]].toarray().tolist()
    )


def test_tfidf_scales_blocks_to_euclidean_length_one_and_l1_does_not():
    assert fs.Weighting().fit(NETWORK).has_unit_blocks
    assert not fs.Weighting("l1").fit(NETWORK).has_unit_blocks


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_blocks_of_any_size_are_scaled_to_length_one(scale):
    rows = [COUNTS.astype(float), scale * VECTORS.astype(float)]
    got = fs.Weighting("l2").fit_transform(fs.Network(rows)).features.toarray()
    np.testing.assert_allclose(got[0], [3 / 10**0.5, 0, 1 / 10**0.5, 0.2**0.5, -(0.8**0.5)], rtol=1e-12)
    np.testing.assert_allclose(got[1:], [[0, 0, 0, 1, 0], [0.5**0.5, 0.5**0.5, 0, 0, 0]], rtol=1e-12)


def test_weightings_of_other_dense_blocks_differ():
    a = fs.Weighting("l2").fit(NETWORK)
    assert a != fs.Weighting("l2").fit(PLAIN)
    assert a == pickle.loads(pickle.dumps(a)) == fs.Weighting("l2").fit(NETWORK)


def test_a_weighting_pickled_before_weights_ordinary_networks():
    weighting = fs.Weighting("l2").fit(PLAIN)
    del weighting.__dict__["dense_blocks_"]
    got = pickle.loads(pickle.dumps(weighting)).transform(PLAIN)
    assert got.features.toarray().tolist() == fs.Weighting("l2").fit_transform(PLAIN).features.toarray().tolist()


def test_a_weighting_fitted_again_forgets_its_dense_blocks():
    assert fs.Weighting("l2").fit(NETWORK).fit(PLAIN).dense_blocks_ == ()


def test_repr_of_a_weighting_tells_dense_features():
    assert repr(fs.Weighting("l2").fit(NETWORK)) == "Weighting('l2', fitted on 5 features, 2 of them dense)"


@pytest.mark.parametrize("weight", [1.0, 0.3, 0.0])
def test_norms_of_the_plain_metric_count_the_blocks_of_a_row(weight):
    network = with_vectors(seed=1, n_nodes=40, n_words=30, widths=(16,))
    wordless = sparse.csr_array(network.features[:, :30].toarray() * (np.arange(40) % 3 > 0)[:, None])
    network = fs.Network([wordless, network.features[:, 30:].toarray()])
    weighted = fs.Weighting().fit_transform(network)
    metric = fs.Metric.diagonal(np.full(46, weight), weighting=weighted.weighting)
    rows = weighted.features.toarray()
    n_blocks = rows[:, :30].any(axis=1).astype(int) + rows[:, 30:].any(axis=1)
    assert set(n_blocks.tolist()) == {0, 1, 2}
    assert ranked_norms(metric, weighted.features).tolist() == (weight * n_blocks).tolist()


# ---- learning and predicting ----------------------------------------------------------------------------------------


def planted(n_nodes=200):
    """Return a network whose nodes link by words, each beside a random projection of its tf-idf words."""
    (network,) = fs.synthetic_networks(n_tasks=1, n_nodes=n_nodes, n_features=60, words_per_node=8, links_per_node=5)
    rows = fs.Weighting().fit_transform(network).features
    vectors = (rows @ np.random.default_rng(0).normal(size=(60, 12))).astype(np.float32)
    return fs.Network([network.features, vectors], network.adjacency, vocabulary=[f"w{f}" for f in range(60)])


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_a_model_of_words_and_vectors_predicts_links_of_hidden_nodes(form, tmp_path):
    network = planted()
    split = network.split(0.2, seed=1)
    model = fs.SPML.paper(metric=form, prior="identity", weighting="tfidf", n_iters=3000, reg=1e-2).fit(split.train)
    got = np.nanmean(fs.link_auc(model, network, split.test_nodes))
    plain = fs.Metric.identity(72, weighting=model.weighting_, takes_counts=True)
    assert got > np.nanmean(fs.link_auc(plain, network, split.test_nodes)) > 0.5
    fs.save_model(tmp_path / "m.h5", model)
    loaded = fs.load_model(tmp_path / "m.h5")
    assert loaded.weighting_.dense_blocks_ == (12,)
    assert np.array_equal(fs.link_auc(loaded, network, split.test_nodes), fs.link_auc(model, network, split.test_nodes))


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_newcomers_may_come_as_blocks(form):
    network = planted(80)
    split = network.split(0.2)
    metric = fs.SPML.paper(metric=form, weighting="tfidf", n_iters=300).fit(split.train).metric_
    words, vectors = split.test.features[:, :60], split.test.features[:, 60:].toarray()
    index = fs.LinkIndex(metric, split.train)
    nodes, distances = index.query([words, vectors], k=5)
    expected = metric.distances(split.test, split.train)
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :5], rtol=1e-9)
    assert nodes.tolist() == index.query(split.test, k=5)[0].tolist()


def test_a_metric_without_weighting_takes_blocks():
    metric = fs.Metric.identity(5)
    assert metric.distances([COUNTS, VECTORS]).tolist() == metric.distances(PLAIN).tolist()


def test_a_metric_that_weights_refuses_blocks_in_the_wrong_order():
    metric = fs.SPML.paper(weighting="l2", n_iters=5).fit(with_vectors(widths=(4,))).metric_
    rows = with_vectors(widths=(4,)).features.toarray()
    with pytest.raises(ValueError, match=r"rows has dense blocks of 4 \+ 9 features"):
        metric.rows([rows[:, 9:], rows[:, :9]])


def test_explanations_name_dense_features():
    metric = fs.SPML.paper(n_iters=20).fit(with_vectors(vocabulary=list("abcdefghi"))).metric_
    assert set(metric.top_features(13).feature) == {*"abcdefghi", *(f"dense_{f}" for f in range(4))}


def test_tasks_with_vectors_are_learned_together():
    tasks = [with_vectors(seed, widths=(4, 2), n_nodes=14 + seed) for seed in range(3)]
    model = fs.MTSPML.paper(weighting="tfidf", n_iters=50).fit(tasks)
    assert model.weighting_.dense_blocks_ == (4, 2)
    assert model.common_metric_.n_features == 15


@pytest.mark.parametrize("weighting", [None, "l2"])
def test_new_words_beside_dense_blocks_are_left_out_and_counted(weighting):
    old = fs.Network([COUNTS, VECTORS], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], vocabulary=WORDS)
    wider = fs.Network([COUNTS, COUNTS, VECTORS], old.adjacency, vocabulary=["yak", "emu", "ant", "dog", "cat", "bee"])
    model = fs.SPML.paper(n_iters=5, weighting=weighting).fit(old)
    with pytest.warns(UserWarning, match="3 features are new to this model, whose dense blocks stay its last features"):
        model.partial_fit(wider, n_iters=5)
    assert model.vocabulary_.tolist() == [*WORDS, "dense_0", "dense_1"]
    assert model.n_iters_ == 10


def test_training_continues_on_grown_networks_with_vectors():
    words = list("abcdefghi")
    old, new = with_vectors(vocabulary=words), with_vectors(n_nodes=20, vocabulary=words, name="task 0")
    model = fs.SPML.paper(weighting="tfidf", n_iters=10).fit(old).partial_fit(new, n_iters=10)
    assert (model.n_iters_, model.n_features_) == (20, 13)


# ---- files ----------------------------------------------------------------------------------------------------------


def in_file(tmp_path, network, monkeypatch):
    """Return a network mapped from a file, worked on in small pieces."""
    monkeypatch.setattr(mapped, "PIECE", 37)
    fs.write_networks(tmp_path / "n.h5", network)
    return fs.read_networks(tmp_path / "n.h5", mapped=True)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mapped_network_is_weighted_to_the_same_bits(kind, tmp_path, monkeypatch):
    network = with_vectors(widths=(4, 2), n_nodes=60)
    got = fs.Weighting(kind, min_df=2).fit_transform(in_file(tmp_path, network, monkeypatch))
    expected = fs.Weighting(kind, min_df=2).fit_transform(network)
    assert got.is_mapped
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(got.features, part), getattr(expected.features, part))
    assert got.weighting == expected.weighting


def test_negative_words_of_a_mapped_network_are_found(tmp_path, monkeypatch):
    words = np.ones((60, 3))
    words[59, 1] = -2.0
    network = fs.Network([sparse.csr_array(words), -np.ones((60, 4))])
    with pytest.raises(ValueError, match=r"negative features \(-2.0\)"):
        fs.Weighting().fit(in_file(tmp_path, network, monkeypatch))


def test_a_mapped_network_trains_and_ranks_to_the_same_bits(tmp_path, monkeypatch):
    network = planted(100)
    models = []
    for given in (network, in_file(tmp_path, network, monkeypatch)):
        split = given.split(0.2)
        model = fs.SPML.paper(weighting="tfidf", n_iters=200).fit(split.train)
        models.append((model.state_.totals, fs.link_auc(model, given, split.test_nodes)))
    assert np.array_equal(models[0][0], models[1][0])
    assert np.array_equal(models[0][1], models[1][1], equal_nan=True)


def replace(file, place, values):
    del file[place]
    file[place] = values


@pytest.mark.parametrize("place", ["networks/000/uns/dense_blocks", "networks/000/uns/weighting/dense_blocks"])
@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([-1, 13], "must hold the first column of every dense block, ascending, and then the number of columns, 13"),
        ([9, 14], r"the number of columns, 13; got \[9, 14\]"),
        ([9, 12], "cannot be used: dense_blocks must hold the first column"),
        ([9, 9, 13], "cannot be used"),
        ([11, 9, 13], "cannot be used"),
        ([13], "cannot be used"),
        (np.zeros(0, int), "cannot be used"),
        (np.array([2**64 - 4, 13], np.uint64), "cannot be used"),
        ([9.0, 13.0], "holds float64, not the numbers expected there"),
        (9, r"has shape \(\), expected 1 dimensions"),
        (np.array([b"9"]), "not the numbers expected there"),
        ([10, 13], "has other dense blocks than its features"),
    ],
)  # fmt: skip
def test_hostile_dense_blocks_are_refused(tmp_path, place, values, sentence):
    path = tmp_path / "n.h5"
    fs.write_networks(path, fs.Weighting().fit_transform(with_vectors()))
    with h5py.File(path, "r+") as file:
        replace(file, place, values)
    with pytest.raises(ValueError, match=sentence):
        fs.read_networks(path, verify=False)
    with pytest.raises(ValueError, match="n.h5"):
        fs.read_networks(path)


def test_ordinary_networks_are_written_as_before(tmp_path):
    fs.write_networks(tmp_path / "n.h5", fs.Weighting("l2").fit_transform(PLAIN))
    with h5py.File(tmp_path / "n.h5") as file:
        assert "dense_blocks" not in file["networks/000/uns"]
        assert "dense_blocks" not in file["networks/000/uns/weighting"]


def test_there_and_back_through_an_h5ad_file(tmp_path):
    network = with_vectors(widths=(4, 2), vocabulary=list("abcdefghi"), name="links")
    fs.write_networks(tmp_path / "n.h5", network)
    assert main(["convert", str(tmp_path / "n.h5"), str(tmp_path / "n.h5ad")]) == 0
    data = anndata.read_h5ad(tmp_path / "n.h5ad")
    for got in (fs.read_networks(tmp_path / "n.h5ad")[0], fs.Network.from_anndata(data)):
        assert got.dense_blocks == (4, 2)
        assert got.vocabulary.tolist() == network.vocabulary.tolist()
        assert got.features.toarray().tolist() == network.features.toarray().tolist()
        assert got.features.dtype == np.float32


# ---- other libraries ------------------------------------------------------------------------------------------------


def test_embeddings_of_anndata_become_dense_blocks():
    data = fs.Network(COUNTS, vocabulary=WORDS).to_anndata()
    data.obsm["X_pca"], data.obsm["X_map"] = VECTORS, OTHERS
    assert fs.Network.from_anndata(data).dense_blocks == ()
    assert fs.Network.from_anndata(data, obsm="X_pca").dense_blocks == (2,)
    got = fs.Network.from_anndata(data, obsm=["X_map", "X_pca"])
    assert got.dense_blocks == (1, 2)
    assert got.features.toarray().tolist() == np.hstack([COUNTS.toarray(), OTHERS, VECTORS]).tolist()
    assert got.vocabulary.tolist() == [*WORDS, "dense_0", "dense_1", "dense_2"]


def test_words_of_anndata_may_be_a_dense_matrix():
    data = anndata.AnnData(COUNTS.toarray().astype(np.float32), obsm={"X_pca": VECTORS})
    assert fs.Network.from_anndata(data, obsm=["X_pca"]).dense_blocks == (2,)


def test_anndata_that_cannot_be_taken_costs_a_sentence():
    data = NETWORK.to_anndata()
    data.obsm["X_pca"] = VECTORS
    with pytest.raises(ValueError, match="obsm holds no 'X_umap'; it holds X_pca"):
        fs.Network.from_anndata(data, obsm=["X_umap"])
    with pytest.raises(ValueError, match="X has dense blocks already .* cannot be added to them"):
        fs.Network.from_anndata(data, obsm=["X_pca"])
    with pytest.raises(ValueError, match=r"the number of columns, 4; got \[3, 5\]"):
        fs.Network.from_anndata(data[:, [0, 1, 3, 4]])  # the columns are not those that uns tells of
    for wrong in ("some", np.array([3.0, 5.0])):
        data.uns["dense_blocks"] = wrong
        with pytest.raises(ValueError, match=r"dense_blocks must hold the first column .* got ('some'|\[3.0, 5.0\])"):
            fs.Network.from_anndata(data)


# ---- the command line -----------------------------------------------------------------------------------------------


@pytest.fixture
def documents(tmp_path):
    rows = [f"d{i},{['cat dog', 'dog emu', 'emu cat'][i % 3]},{'ab'[i % 2]}" for i in range(6)]
    (tmp_path / "docs.csv").write_text("\n".join(["id,text,area", *rows]))
    (tmp_path / "edges.txt").write_text("d0 d2\nd1 d3\n")
    np.save(tmp_path / "v.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    return tmp_path


def test_imported_documents_may_bring_vectors(documents, capsys):
    arguments = ["docs.csv", "edges.txt", "--vectors", "v.npy", "--task-column", "area", "--max-df", "1", "-o", "n.h5"]
    paths = [str(documents / word) if "." in word else word for word in arguments]
    assert main(["import", "text", *paths]) == 0
    a, b = fs.read_networks(documents / "n.h5")
    assert a.dense_blocks == b.dense_blocks == (2,)
    assert a.features.toarray()[:, 3:].tolist() == [[0, 1], [4, 5], [8, 9]]
    assert b.features.toarray()[:, 3:].tolist() == [[2, 3], [6, 7], [10, 11]]
    capsys.readouterr()
    assert main(["info", str(documents / "n.h5"), "--json"]) == 0
    task = json.loads(capsys.readouterr().out)["tasks"][0]
    assert (task["features"], task["dense"], task["words/node"]) == (5, 2, 2.0)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (np.zeros((5, 2)), "v.npy has 5 rows, but docs.csv holds 6 documents; each needs one"),
        (np.zeros(6), "v.npy must hold one matrix with a row for each document"),
        (np.array([[{}]] * 6), "v.npy cannot be read as a .npy file of numbers"),
        (b"", "v.npy cannot be read as a .npy file of numbers"),
    ],
)
def test_vectors_that_cannot_be_used_cost_a_sentence(documents, content, sentence):
    path = documents / "v.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(ValueError, match=sentence):
        read_text(documents / "docs.csv", documents / "edges.txt", max_df=1.0, vectors=path)
