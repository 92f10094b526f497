"""Rankings that use known links: a candidate's best neighbour, its degree, and the bonus of one without links."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.ranking.hidden_calibration import hidden_calibration
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.scores import link_scores
from fastspml.selection import hidden_links
from fastspml.splits import split_at
from tests import naive

WEIGHT = 0.75
WEIGHTS = {"neighbour_weight": WEIGHT, "degree_weight": 1.5, "unlinked_bonus": 2.5}


def metrics():
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(12, 12))
    for score, length_weight in (("distance", 0.0), ("similarity", 0.0), ("distance", -0.75), ("similarity", -0.1)):
        options = {"score": score, "length_weight": length_weight, **WEIGHTS}
        yield fs.Metric.diagonal(rng.uniform(0, 2, 12), **options)
        yield fs.Metric.full(matrix @ matrix.T, **options)
        yield fs.Metric.factored(rng.uniform(0, 2, 12), rng.normal(size=(12, 3)), **options)


def name_of(metric):
    return f"{metric.form}, {metric.score}, {metric.length_weight}"


@pytest.fixture(scope="module")
def network():
    """A directed network of 30 nodes; features are integers."""
    rng = np.random.default_rng(0)
    links = rng.random((30, 30)) < 0.12
    np.fill_diagonal(links, False)
    return fs.Network(rng.integers(0, 3, (30, 12)), links, nodes=[f"n{i}" for i in range(30)])


def expected_scores(metric, network, queries, known):
    """Return scores of all nodes for dense queries, larger for likelier, from the formulas."""
    M, X = metric.submatrix(np.arange(12), np.arange(12)), network.features.toarray()
    rows = []
    for query in queries:
        own = np.array([-naive.rank_score(M, query, x, metric.score, metric.length_weight) for x in X])
        rows.append(-naive.rank_with_links(own, known, **metric.link_weights))
    return np.array(rows)


def links_among(network, nodes):
    known = network.adjacency.toarray().copy()
    hidden = np.setdiff1d(np.arange(network.n_nodes), nodes)
    known[hidden], known[:, hidden] = False, False
    return known


@pytest.mark.parametrize("metric", list(metrics()), ids=name_of)
class TestRankings:
    def test_index_finds_the_best_averages(self, metric, network):
        new = np.random.default_rng(2).integers(0, 3, (5, 12))
        nodes, values = fs.LinkIndex(metric, network).query(new, k=30)
        expected = expected_scores(metric, network, new, network.adjacency.toarray())
        sign = 1.0 if metric.ranks_by_similarity else -1.0
        np.testing.assert_allclose(values, sign * np.take_along_axis(expected, nodes, axis=1), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(values, sign * -np.sort(-expected, axis=1), rtol=1e-9, atol=1e-9)

    def test_quality_uses_no_link_of_the_nodes_ranked(self, metric, network):
        nodes = np.array([3, 7, 20, 21])
        known = links_among(network, np.setdiff1d(np.arange(30), nodes))
        scores = expected_scores(metric, network, network.features[nodes].toarray(), known)
        quality = fs.link_quality(metric, network, nodes).values()
        A = network.adjacency.toarray()
        for row, node in enumerate(nodes):
            for name, value in naive.link_quality(np.round(scores[row], 9), A, node).items():
                np.testing.assert_allclose(quality[name][row], value, rtol=1e-9)

    def test_quality_uses_links_among_seen_nodes_only(self, metric, network):
        nodes, seen = [3, 7], np.arange(8, 30)
        links = network.adjacency.toarray()
        links[:8], links[:, :8] = False, False
        links[nodes] = network.adjacency[nodes].toarray()
        found = fs.link_quality(metric, network, nodes, seen=seen)
        expected = fs.link_quality(metric, network.with_links(links), nodes)
        np.testing.assert_array_equal(found.auc, expected.auc)

    def test_scores_are_those_that_are_ranked(self, metric, network):
        nodes = np.array([3, 7])
        known = links_among(network, np.setdiff1d(np.arange(30), nodes))
        expected = expected_scores(metric, network, network.features[nodes].toarray(), known)
        differences = link_scores(metric, network, nodes) - expected
        np.testing.assert_allclose(differences - differences[:, :1], 0.0, atol=1e-9)

    def test_an_index_that_lives_equals_a_new_one(self, metric, network):
        index = fs.LinkIndex(metric, network.subset(np.arange(20)))
        index.remove(["n3", "n11"])
        index.add(network.subset(np.arange(20, 24)))
        left = np.setdiff1d(np.arange(24), [3, 11])
        links = links_among(network, np.setdiff1d(np.arange(20), [3, 11]))[np.ix_(left, left)]  # added nodes have none
        new = fs.LinkIndex(metric, network.subset(left).with_links(links))
        queries = network.features[24:]
        for found, expected in zip(index.query(queries, 22), new.query(queries, 22), strict=True):
            np.testing.assert_array_equal(found, expected)
        index.remove([f"n{i}" for i in range(10) if i != 3])  # few are left, so the segment is built anew
        left = np.setdiff1d(np.arange(10, 24), [11])
        links = links_among(network, np.setdiff1d(np.arange(10, 20), [11]))[np.ix_(left, left)]
        new = fs.LinkIndex(metric, network.subset(left).with_links(links))
        for found, expected in zip(index.query(queries, 13), new.query(queries, 13), strict=True):
            np.testing.assert_array_equal(found, expected)

    def test_saved_indices_know_links(self, metric, network, tmp_path):
        index = fs.LinkIndex(metric, network)
        index.save(tmp_path / "index.h5")
        for mapped in (True, False):
            read = fs.LinkIndex.load(tmp_path / "index.h5", mapped=mapped)
            assert read.metric.link_weights == WEIGHTS
            for found, expected in zip(read.query(network, 30), index.query(network, 30), strict=True):
                np.testing.assert_array_equal(found, expected)

    def test_threads_and_blocks_of_queries_change_nothing(self, metric, network):
        index = fs.LinkIndex(metric, network)
        together = index.query(network.features, 5)
        one_by_one = [index.query(network.features[i], 5) for i in range(30)]
        for part in range(2):
            np.testing.assert_array_equal(together[part], np.concatenate([found[part] for found in one_by_one]))
            np.testing.assert_array_equal(together[part], index.query(network.features, 5, n_threads=3)[part])

    def test_the_graph_of_the_paper_compares_features_alone(self, metric, network):
        M, X = metric.submatrix(np.arange(12), np.arange(12)), network.features.toarray()
        found = fs.connect(metric, network, 3).toarray().astype(int)
        similarities = naive.connect(np.round(M, 9), X, 3, metric.score, metric.length_weight)
        assert (found != similarities).sum() <= 4  # of 90; ties that rounding decides


def expected_through(metric, network, query, candidate):
    """Return which nodes may be named as the best known neighbour of a candidate, from the formulas."""
    M, X = metric.submatrix(np.arange(12), np.arange(12)), network.features.toarray()
    linking = [i for i in range(network.n_nodes) if network.adjacency[i, candidate]]
    if not linking:
        return {None}
    own = {i: naive.rank_score(M, query, X[i], metric.score, metric.length_weight) for i in linking}
    best = max(own.values())
    return {f"n{i}" for i, score in own.items() if score >= best - 1e-9}


@pytest.mark.parametrize("metric", list(metrics()), ids=name_of)
def test_a_link_says_through_which_neighbour_it_was_found(metric, network):
    new = np.random.default_rng(3).integers(0, 3, (6, 12))
    links = fs.predict_links(metric, network, new, k=30)
    assert len(links) == 180
    for link in links:
        assert link.through in expected_through(metric, network, new[link.node], int(link.candidate[1:]))
    assert None in links.through.tolist()  # a node that none links to
    assert len(set(links.through.tolist())) > 5


def test_neighbours_are_those_of_an_index_that_lives(network):
    metric = fs.Metric.identity(12, neighbour_weight=WEIGHT)
    index = fs.LinkIndex(metric, network.subset(np.arange(20)))
    index.add(network.subset(np.arange(20, 24)))
    index.remove(["n3", "n11"])
    left = np.setdiff1d(np.arange(24), [3, 11])
    links = links_among(network, np.setdiff1d(np.arange(20), [3, 11]))[np.ix_(left, left)]
    now = network.subset(left).with_links(links)
    queries = network.features[24:]
    got, expected = (fs.predict_links(metric, now, queries, k=22, index=i) for i in (index, None))
    assert got.to_csv() == expected.to_csv()
    assert expected.through.tolist().count(None) < len(expected)


@pytest.mark.parametrize("removed", [[], [3], [3, 11], range(20), range(28)])
def test_an_index_says_which_links_it_knows_by_position(network, removed):
    index = fs.LinkIndex(fs.Metric.identity(12, degree_weight=1.0), network)
    index.remove(np.array(removed, dtype=int))
    left = np.setdiff1d(np.arange(30), removed)
    np.testing.assert_array_equal(index.known_links().links.toarray(), network.adjacency.toarray()[np.ix_(left, left)])
    index.add(network.features[:13], nodes=[f"new {i}" for i in range(13)])  # more nodes than features
    links = np.zeros((len(left) + 13, len(left) + 13), dtype=bool)
    links[:-13, :-13] = network.adjacency.toarray()[np.ix_(left, left)]
    np.testing.assert_array_equal(index.known_links().links.toarray(), links)


def test_the_score_is_averaged_with_that_of_the_neighbour_named(network):
    metric, plain = (fs.Metric.identity(12, neighbour_weight=weight) for weight in (WEIGHT, 0.0))
    new = network.features[[4]]
    scores = {link.candidate: link.score for link in fs.predict_links(plain, network, new, k=30)}
    for link in fs.predict_links(metric, network, new, k=30):
        own = scores[link.candidate]
        best = own if link.through is None else scores[link.through]
        assert link.score == pytest.approx((own + WEIGHT * best) / (1 + WEIGHT))


def test_without_a_weight_no_neighbour_is_named(network):
    links = fs.predict_links(fs.Metric.identity(12), network, network.features[:2], k=3)
    assert links.through is None
    assert {link.through for link in links} == {None}
    assert "through" not in links.to_dict()


def test_neighbours_without_names_are_positions(network):
    unnamed = fs.Network(network.features, network.adjacency)
    metric = fs.Metric.identity(12, neighbour_weight=WEIGHT)
    got = fs.predict_links(metric, unnamed, network.features[:2], k=30).through.tolist()
    named = fs.predict_links(metric, network, network.features[:2].toarray(), k=30).through.tolist()
    assert got == [None if name is None else int(name[1:]) for name in named]
    assert {type(name) for name in got} == {int, type(None)}


def test_no_links_have_no_neighbours(network):
    metric = fs.Metric.identity(12, neighbour_weight=WEIGHT)
    links = fs.predict_links(metric, network, network.subset([]))
    assert links.through.tolist() == []
    unlinked = fs.predict_links(metric, fs.Network(np.eye(12)), np.ones((2, 12)), k=2)
    assert unlinked.through.tolist() == [None] * 4


@pytest.mark.parametrize("name", WEIGHTS)
def test_suggestions_use_no_link_of_their_nodes(network, name):
    metric = fs.Metric.identity(12, **{name: 4.0})
    nodes = np.arange(10)
    hidden = network.with_links(links_among(network, np.arange(10, 30)))
    np.testing.assert_array_equal(
        fs.list_quality(metric, network, nodes, k=4).counts, fs.list_quality(metric, hidden, nodes, k=4).counts
    )


def test_links_are_kept_without_and_within_nodes(network):
    known = KnownLinks(network.adjacency)
    np.testing.assert_array_equal(
        known.without(np.array([0, 5])).links.toarray(), links_among(network, np.setdiff1d(np.arange(30), [0, 5]))
    )
    nodes = np.array([4, 2, 9])
    np.testing.assert_array_equal(known.subset(nodes).links.toarray(), network.subset(nodes).adjacency.toarray())


def test_terms_of_a_ranking_are_those_of_the_formula():
    """Nodes 0 and 1 link to node 2, node 1 to node 0; smaller scores are better here."""
    links = sparse.csr_array(np.array([[0, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=bool))
    terms = KnownLinks(links).terms(np.array([[-1.0, -4.0, -2.0, -8.0], [-5.0, 3.0, 2.0, 0.0]]))
    score, neighbour, unlinked, degree = np.moveaxis(terms, -1, 0)
    assert score.tolist() == [[1.0, 4.0, 2.0, 8.0], [5.0, -3.0, -2.0, 0.0]]
    assert neighbour.tolist() == [
        [3.0, 0.0, 2.0, 0.0],
        [-8.0, 0.0, 7.0, 0.0],
    ]  # by how much the best neighbour's is better
    assert unlinked.tolist() == [[0.0, 1.0, 0.0, 1.0]] * 2
    np.testing.assert_allclose(degree, [[np.log(2), 0.0, np.log(3), 0.0]] * 2)


@pytest.mark.parametrize("name", WEIGHTS)
def test_metrics_keep_every_weight(name):
    metric = fs.Metric.identity(12, **{name: 0.5})
    assert metric.uses_links
    assert metric.context[name] == 0.5
    assert f"{name}=0.5" in repr(metric)
    assert (metric + metric).link_weights == metric.project().link_weights == metric.link_weights
    with pytest.raises(ValueError, match=f"distance with {name}=0.5 and one that ranks by distance cannot"):
        metric + fs.Metric.identity(12)
    assert not fs.Metric.identity(12).uses_links


@pytest.mark.parametrize("name", WEIGHTS)
def test_every_weight_alone_is_used_and_stored(network, name, tmp_path):
    metric = fs.Metric.identity(12, **{name: 3.0})
    expected = expected_scores(metric, network, network.features[[4]].toarray(), network.adjacency.toarray())
    fs.LinkIndex(metric, network).save(tmp_path / "index.h5")
    for index in (fs.LinkIndex(metric, network), fs.LinkIndex.load(tmp_path / "index.h5")):
        values = index.query(network.features[4], k=30)[1]
        np.testing.assert_allclose(values, np.sort(-expected, axis=1), rtol=1e-9, atol=1e-9)
    assert (fs.predict_links(metric, network, ["n4"]).through is None) == (name != "neighbour_weight")


@pytest.mark.parametrize("name", WEIGHTS)
def test_added_nodes_have_no_links_whatever_the_weight(network, name):
    metric = fs.Metric.identity(12, **{name: 3.0})
    index = fs.LinkIndex(metric, network.subset(np.arange(20)))
    index.add(network.subset(np.arange(20, 24)))
    new = fs.LinkIndex(metric, network.subset(np.arange(24)).with_links(links_among(network, np.arange(20))[:24, :24]))
    for found, expected in zip(
        index.query(network.features[24:], 24), new.query(network.features[24:], 24), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("weight", [-0.5, np.inf, np.nan, "1", None])
def test_a_neighbour_weight_is_a_number_from_0(weight):
    with pytest.raises(ValueError, match="neighbour_weight must be a number from 0"):
        fs.Metric.identity(3, neighbour_weight=weight)
    with pytest.raises(ValueError, match="neighbour_weight must be a number from 0"):
        fs.SPML(neighbour_weight=weight).check_params()


@pytest.mark.parametrize("weight", [np.inf, -np.inf, np.nan, "1", None])
@pytest.mark.parametrize("name", ["degree_weight", "unlinked_bonus"])
def test_other_weights_are_finite_numbers(name, weight):
    with pytest.raises(ValueError, match=f"{name} must be a finite number"):
        fs.Metric.identity(3, **{name: weight})
    with pytest.raises(ValueError, match=f"{name} must be a finite number"):
        fs.SPML(**{name: weight}).check_params()
    assert fs.Metric.identity(3, **{name: -1}).link_weights[name] == -1.0


def test_models_rank_with_them_and_keep_them(network, tmp_path):
    model = fs.SPML(n_iters=50, **WEIGHTS).fit(network)
    assert model.metric_.link_weights == WEIGHTS
    path = tmp_path / "model.h5"
    fs.save_model(path, model)
    read = fs.load_model(path)
    assert {name: read.get_params()[name] for name in WEIGHTS} == read.metric_.link_weights == WEIGHTS
    plain = fs.SPML(n_iters=50).fit(network)
    assert model.state_.totals.tobytes() == plain.state_.totals.tobytes()
    assert not np.array_equal(fs.link_auc(model, network, [1, 2, 3]), fs.link_auc(plain, network, [1, 2, 3]))
    assert [link.candidate for link in read.predict_links(network, ["n1"])] == [
        link.candidate for link in model.predict_links(network, ["n1"])
    ]


def test_calibration_uses_no_link_of_held_out_nodes(network, monkeypatch):
    seen = []
    without = KnownLinks.without
    monkeypatch.setattr(KnownLinks, "without", lambda known, nodes: seen.append(len(nodes)) or without(known, nodes))
    model = fs.SPML(n_iters=50, neighbour_weight=2.0).fit(network)
    model.calibrate([network], n_folds=3)
    assert 10 in seen  # of a fold
    probability = model.predict_links(network, ["n1"]).probability
    assert ((probability >= 0) & (probability <= 1)).all()


def test_a_mapped_network_is_refused_with_a_sentence(network, tmp_path):
    fs.write_networks(tmp_path / "n.h5", network)
    mapped = fs.read_networks(tmp_path / "n.h5", mapped=True)[0]
    with pytest.raises(
        ValueError, match="mapped network cannot be ranked with known links; set degree_weight to 0, or"
    ):
        fs.link_quality(fs.Metric.identity(12, degree_weight=1.0), mapped, [0, 1])


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_file_with_an_impossible_weight_is_refused(network, tmp_path, weight):
    path = tmp_path / "index.h5"
    fs.LinkIndex(fs.Metric.identity(12, neighbour_weight=1.0), network).save(path)
    with h5py.File(path, "r+") as file:
        file["metric/neighbour_weight"][()] = weight
    with pytest.raises(ValueError, match="neighbour_weight must be a number from 0"):
        fs.LinkIndex.load(path)


def test_a_file_whose_links_are_of_other_nodes_is_refused(network, tmp_path):
    path = tmp_path / "index.h5"
    fs.LinkIndex(fs.Metric.identity(12, neighbour_weight=1.0), network).save(path)
    with h5py.File(path, "r+") as file:
        file["links"].attrs["shape"] = np.array([29, 29])
        del file["links/indptr"]
        file["links/indptr"] = np.zeros(30, dtype=np.int64)
        for part in ("data", "indices"):
            kind = file[f"links/{part}"].dtype
            del file[f"links/{part}"]
            file[f"links/{part}"] = np.zeros(0, dtype=kind)
    with pytest.raises(ValueError, match="links"):
        fs.LinkIndex.load(path, mapped=False, verify=False)


def test_links_of_held_out_candidates_are_not_known_to_anchors(network):
    metric, everything = fs.Metric.identity(12, neighbour_weight=4.0), network.undirected()
    anchors, hidden = ["n0", "n1"], np.arange(15, 30)
    links = everything.adjacency.toarray()
    links[2:, hidden], links[hidden, 2:] = False, False  # all that the anchors have remain
    found, expected = (
        hidden_links(split_at(net, hidden), anchors).quality(metric).auc
        for net in (everything, everything.with_links(links))
    )
    np.testing.assert_array_equal(found, expected)


def test_a_distance_that_links_change_may_have_a_negative_radius(network):
    index = fs.LinkIndex(fs.Metric.identity(12, unlinked_bonus=50.0), network)
    values = index.query(network.features[:3], 30)[1]
    nodes, within = index.query(network.features[:3], 30, radius=-20.0)
    assert (values <= -20.0).any()
    np.testing.assert_array_equal(nodes >= 0, values <= -20.0)
    assert np.nanmax(within) <= -20.0


@pytest.mark.parametrize(
    "weights", [{}, {"neighbour_weight": 1.0, "unlinked_bonus": 1.0}], ids=["features alone", "known links"]
)
def test_calibrated_probabilities_expect_as_many_links_as_are_found(weights):
    network = fs.synthetic_networks(n_tasks=1, n_nodes=400, n_features=300, words_per_node=10, links_per_node=6)[0]
    split = network.undirected().split(0.2, seed=1)
    model = fs.SPML(n_iters=2000, **weights).fit(split.train).calibrate(split.train)
    model.hidden_nodes_ = [split.test_nodes]
    (found,) = hidden_calibration(model, [split.network])
    expected, observed = found.deciles.sum(axis=0)[:2]
    assert 0.8 < expected / observed < 1.25
