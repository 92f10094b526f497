"""Models that continue training: with the same networks, with grown ones, with new words, and with one more task."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.training.adding import FROZEN_SEED
from fastspml.training.continuing import grown_networks
from fastspml.vocabulary import align_vocabulary
from tests import naive
from tests.conftest import dense, make_network

BATCH, SEED = 7, 3
FORMS = ["diagonal", "full"]


def matrix_of(metric):
    return metric.submatrix(np.arange(metric.n_features), np.arange(metric.n_features))


def assert_close(got, expected):
    assert np.abs(got - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max())


def batches(network, pool, iterations, seed=SEED):
    """Return the twin's own draws of some iterations, from one network that is pool number `pool`."""
    links = [dense(network)[1]]
    return [[naive.draw_triplet(links, seed, pool, t, b, exact=False)[1:] for b in range(BATCH)] for t in iterations]


def named(network, words, nodes=None):
    return fs.Network(network.features, network.adjacency, network.name, nodes, vocabulary=words)


@pytest.fixture
def tasks():
    return [make_network(seed, n_nodes=12 + 2 * seed) for seed in range(3)]


@pytest.fixture
def small():
    return make_network()


@pytest.fixture
def grown(small):
    """The small network with more nodes, more links and two more words, before and between the known ones."""
    X, A = dense(small)
    rng = np.random.default_rng(9)
    X = np.vstack([X, rng.normal(size=(5, 9))])
    X = np.column_stack([np.zeros(19), X[:, :4], rng.normal(size=19), X[:, 4:]])
    X[14:, 0] = 1.5
    links = np.zeros((19, 19), dtype=int)
    links[:14, :14] = A
    links[14:, :9] = rng.random((5, 9)) < 0.4
    links[0, 15] = 1
    words = ["new a", *(f"w{f}" for f in range(4)), "new b", *(f"w{f}" for f in range(4, 9))]
    return fs.Network(X, links, small.name, vocabulary=words)


# ---- the same networks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"projection": "every"}, {"projection": 5, "average": True}])
@pytest.mark.parametrize("form", [*FORMS, "factored"])
@pytest.mark.parametrize("kind", [fs.SPML.paper, fs.MTSPML.paper])
def test_going_on_with_the_same_networks_is_one_longer_fit(tasks, kind, form, params, tmp_path):
    params = {"metric": form, "batch_size": BATCH, **params}
    expected = kind(n_iters=37, **params).fit(tasks)
    fs.save_model(tmp_path / "m.h5", kind(n_iters=20, **params).fit(tasks))
    got = fs.load_model(tmp_path / "m.h5").partial_fit(tasks, n_iters=9).partial_fit(tasks, n_iters=8)
    assert np.array_equal(got.state_.totals, expected.state_.totals)
    assert np.array_equal(got.state_.moments, expected.state_.moments)
    assert np.array_equal(got.violations_, expected.violations_)
    assert np.array_equal(matrix_of(got.metric_for(0)), matrix_of(expected.metric_for(0)))
    assert (got.n_iters_, got.n_iters) == (37, 20)


def test_the_number_of_threads_cannot_be_seen(tasks):
    params = {"n_iters": 5, "batch_size": 150}
    one = fs.MTSPML.paper(**params).fit(tasks).partial_fit(tasks[:3], n_iters=6)
    two = fs.MTSPML.paper(n_threads=2, **params).fit(tasks).partial_fit(tasks, n_iters=6)
    for model in (one, two):
        model.add_task(make_network(7), n_iters=4, common="frozen").add_task(make_network(8), 4, common="moving")
    assert np.array_equal(one.state_.totals, two.state_.totals)


def test_an_unfitted_model_is_fitted(small):
    got, expected = fs.SPML.paper(n_iters=50).partial_fit(small, n_iters=8), fs.SPML.paper(n_iters=8).fit(small)
    assert np.array_equal(got.metric_.weights, expected.metric_.weights)
    assert fs.SPML.paper(n_iters=5).fit(small).partial_fit(small).n_iters_ == 10


def test_progress_counts_on_and_stops(small):
    records = []
    model = fs.SPML.paper(n_iters=5).fit(small)
    model.partial_fit(small, 6, progress=records.append)
    assert [(record.iteration, record.n_iters) for record in records] == [(11, 11)]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metric": "full"}, "metric cannot change .* it was 'factored', and is 'full' now"),
        ({"metric": "diagonal"}, "metric cannot change .* it was 'factored', and is 'diagonal' now"),
        ({"average": True}, "average cannot change .* it was False, and is True now"),
        ({"ensemble": 1}, "ensemble cannot change .* it was 2, and is 1 now"),
        ({"rank": 64}, "rank cannot change .* it was 32, and is 64 now"),
        ({"rank": 64, "ensemble": 4}, "rank cannot change .* it was 32, and is 64 now"),  # rows of equal width
        ({"rank": 20}, "rank cannot change .* it was 32, and is 20 now"),  # likewise: rows are padded
    ],
)
def test_what_a_state_is_made_for_cannot_change(small, change, sentence):
    model = fs.SPML.paper(metric="factored", rank=32, ensemble=2, n_iters=2).fit(small)
    model.set_params(n_iters=4, **change)
    for more in (model.resume, model.partial_fit):
        with pytest.raises(ValueError, match=sentence):
            more(small)


@pytest.mark.parametrize(("n_shards", "continues"), [(2, True), (3, False), (1, False)])
def test_the_shards_of_a_round_cannot_change_in_its_middle(small, n_shards, continues):
    model = fs.SPML.paper(shards=2, n_iters=37).fit(small)
    model.set_params(shards=n_shards, n_iters=40)
    if continues:
        assert model.resume(small).n_iters_ == 40
        return
    with pytest.raises(ValueError, match=f"in a round of 2 shards; it cannot continue with shards={n_shards}"):
        model.resume(small)


def test_means_over_a_single_feature_continue():
    network = fs.Network(np.array([[1.0], [0.0], [2.0]]), np.eye(3, k=1))
    got = fs.SPML.paper(average=True, n_iters=5).fit(network).partial_fit(network, 4)
    expected = fs.SPML.paper(average=True, n_iters=9).fit(network)
    assert np.array_equal(got.metric_.weights, expected.metric_.weights)


@pytest.mark.parametrize(
    ("make", "n_iters", "sentence"),
    [
        (lambda net: net.replace(name="games"), 9, "was trained on task 0 with 9 features"),
        (lambda net: fs.Network(np.ones((14, 8)), net.adjacency, net.name), 9, "got task 0 with 8"),
        (lambda net: net, 4, "has done 5 iterations already, more than n_iters=4"),
    ],
)
def test_resume_is_for_the_same_networks_and_more_iterations(small, make, n_iters, sentence):
    model = fs.SPML.paper(n_iters=5).fit(small).set_params(n_iters=n_iters)
    with pytest.raises(ValueError, match=sentence):
        model.resume(make(small))


def test_resume_refuses_features_in_another_order(small):
    words = [f"w{f}" for f in range(9)]
    model = fs.SPML.paper(n_iters=5).fit(named(small, words)).set_params(n_iters=9)
    other = fs.Network(small.features[:, [1, 0, *range(2, 9)]], small.adjacency, vocabulary=["w1", "w0", *words[2:]])
    with pytest.raises(ValueError, match="the features of the networks have other names, or another order"):
        model.resume(other.replace(name=small.name))
    assert model.resume(named(small, words)).n_iters_ == 9


def test_a_copy_that_continues_leaves_the_model_as_it_is(small):
    model = fs.SPML.paper(n_iters=50).fit(small)
    copy.copy(model).partial_fit(small, 20)
    assert model.state_.iteration == 50
    expected = fs.SPML.paper(n_iters=51).fit(small)
    assert np.array_equal(model.partial_fit(small, 1).metric_.weights, expected.metric_.weights)


def test_copies_that_continue_count_their_own_violations(small):
    """Counts have room for more iterations, which copies must not share."""
    model = fs.SPML.paper(n_iters=50).fit(small).partial_fit(small, 5)
    one, other = copy.copy(model), copy.copy(model)
    expected = one.partial_fit(small, 20).violations_.copy()
    other.partial_fit(small.undirected(), 20)
    assert one.violations_.tolist() == expected.tolist() != other.violations_.tolist()


def test_a_fit_whose_progress_fails_is_resumed_whatever_was_fitted_before(small):
    """The metrics of the earlier fit, of another rank, are not those of the state."""

    def fail(progress):
        raise OSError("no terminal")

    model = fs.SPML.paper(metric="factored", rank=4, n_iters=10).fit(small).set_params(rank=5, n_iters=30)
    with pytest.raises(OSError, match="no terminal"):
        model.fit(small, progress=fail)
    assert model.resume(small).metric_.is_same_as(
        fs.SPML.paper(metric="factored", rank=5, n_iters=30).fit(small).metric_
    )


# ---- grown networks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", ["never", "end", 5])
@pytest.mark.parametrize("form", FORMS)
def test_grown_networks_change_s_and_nothing_else(small, grown, form, projection, average):
    """The twin runs Algorithm 1 over all words and nodes, on batches that come from the old S first, then the new."""
    old = named(small, [f"w{f}" for f in range(9)])
    order = [*(f"w{f}" for f in range(9)), "new a", "new b"]
    X = dense(grown)[0][:, [grown.vocabulary.tolist().index(word) for word in order]]
    X_old = np.column_stack([dense(small)[0], np.zeros((14, 2))])
    triplets = [[(0, *triplet) for triplet in batch] for batch in batches(small, 0, range(1, 9))]
    triplets += [[(1, *triplet) for triplet in batch] for batch in batches(grown, 0, range(9, 15))]
    expected, violations = naive.spml([X_old, X], triplets, 0.05, form, "identity", 0.7, projection, average)
    model = fs.SPML.paper(
        reg=0.05, metric=form, prior="identity", margin=0.7, n_iters=8, batch_size=BATCH, projection=projection,
        average=average, seed=SEED,
    ).fit(old)  # fmt: skip
    assert_close(matrix_of(model.metric_), expected[7][:9, :9])
    model.partial_fit(grown, n_iters=6)
    assert model.vocabulary_.tolist() == model.metric_.vocabulary.tolist() == order
    assert_close(matrix_of(model.metric_), expected[-1])
    assert model.violations_.tolist() == violations


@pytest.mark.parametrize("ensemble", [1, 3])
def test_factors_of_new_words_are_those_of_a_fit_that_knew_them(small, grown, ensemble):
    """The first factors depend on the seed and the position of a feature alone."""
    old, order = named(small, [f"w{f}" for f in range(9)]), [*(f"w{f}" for f in range(9)), "new a", "new b"]
    params = {"metric": "factored", "rank": 3, "ensemble": ensemble, "step": 0.1, "batch_size": BATCH}
    got = fs.SPML.paper(n_iters=5, **params).fit(old).partial_fit(grown, n_iters=4)
    wide = fs.Network(
        sparse.hstack([small.features, sparse.csr_array((14, 2), dtype=np.float32)]), small.adjacency, vocabulary=order
    )
    expected = fs.SPML.paper(n_iters=5, **params).fit(wide).partial_fit(grown, n_iters=4)
    assert np.array_equal(got.state_.sums.factor_totals, expected.state_.sums.factor_totals)
    assert np.array_equal(got.metric_.factors, expected.metric_.factors)


@pytest.mark.parametrize("project", ["each", "combined"])
def test_a_task_is_added_to_factors_that_stay_or_move(tasks, project):
    params = {"metric": "factored", "rank": 3, "ensemble": 3, "step": 0.1, "n_iters": 30, "project": project}
    begun = fs.MTSPML.paper(**params).fit(tasks[:2])
    frozen = copy.deepcopy(begun).add_task(tasks[2], 20)
    assert np.array_equal(frozen.common_metric_.factors, begun.common_metric_.factors)
    assert np.array_equal(frozen.metric(0).weights, begun.metric(0).weights)
    assert frozen.task_metrics_[2].weights.any()
    assert frozen.metric(2).rank == 3
    moving = copy.deepcopy(begun).add_task(tasks[2], 20, common="moving")
    assert not np.array_equal(moving.common_metric_.factors, begun.common_metric_.factors)
    later = copy.deepcopy(frozen).partial_fit(tasks, 5)
    assert later.n_iters_ == 35
    assert not np.array_equal(later.common_metric_.factors, begun.common_metric_.factors)


def test_new_words_start_from_their_prior(tasks):
    words = [f"w{f}" for f in range(9)]
    model = fs.MTSPML.paper(n_iters=20).fit([named(task, words) for task in tasks])
    before = model.common_metric_.weights.copy()
    wider = [
        fs.Network(sparse.hstack([task.features, sparse.csr_array((task.n_nodes, 1))]), task.adjacency, task.name,
                   vocabulary=[*words, "never used"])
        for task in tasks
    ]  # fmt: skip
    model.partial_fit(wider, n_iters=1)
    assert model.common_metric_.weights[9] == 1.0
    assert [metric.weights[9] for metric in model.task_metrics_] == [0.0] * 3
    assert len(before) == 9


def test_a_fitted_weighting_stays_and_new_words_are_left_out_and_counted(grown):
    counts = fs.Network(np.round(np.abs(dense(grown)[0]) * 3), grown.adjacency, "task", vocabulary=grown.vocabulary)
    old = fs.Network(counts.features[:14, 1:5], counts.adjacency[:14, :14], "task", vocabulary=counts.vocabulary[1:5])
    model = fs.SPML.paper(n_iters=10, weighting="tfidf").fit(old)
    idf = model.weighting_.idf_.copy()
    with pytest.warns(UserWarning, match="7 features are new to the tfidf weighting of this model.* left out"):
        model.partial_fit(counts, n_iters=5)
    assert model.n_features_ == 4
    assert np.array_equal(model.weighting_.idf_, idf)
    other = fs.SPML.paper(n_iters=10, weighting="l2").fit(old).partial_fit(counts, n_iters=5)
    assert other.n_features_ == other.weighting_.n_features_ == 11
    assert other.metric_for(0).distances(counts.features[:2, [1, 2, 3, 4, 0, 5, 6, 7, 8, 9, 10]]).shape == (2, 2)


def test_a_saved_grown_model_goes_on_to_the_same_bits(small, grown, tmp_path):
    model = fs.SPML.paper(n_iters=8).fit(named(small, [f"w{f}" for f in range(9)])).partial_fit(grown, n_iters=5)
    fs.save_model(tmp_path / "m.h5", model)
    other = fs.load_model(tmp_path / "m.h5").partial_fit(grown, n_iters=4)
    assert np.array_equal(model.partial_fit(grown, n_iters=4).state_.totals, other.state_.totals)


def test_tasks_that_share_attributes_go_on_sharing_them(small):
    words = [f"w{f}" for f in range(9)]
    first = named(small, words)
    second = first.with_links(first.adjacency.T, "other")
    model = fs.MTSPML.paper(n_iters=5).fit([first, second])
    wide = named(small, words[::-1])
    prepared = grown_networks(model, [wide, wide.with_links(second.adjacency, "other")])
    assert prepared.networks[0].features is prepared.networks[1].features


def test_a_mapped_network_goes_on_over_other_words(small, grown, tmp_path):
    fs.write_networks(tmp_path / "n.h5", grown)
    old = named(small, [f"w{f}" for f in range(9)])
    (in_file,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    assert align_vocabulary(in_file, old.vocabulary)[0].is_mapped
    got, expected = (
        fs.SPML.paper(n_iters=8).fit(old).partial_fit(fs.read_networks(tmp_path / "n.h5", mapped=is_mapped), n_iters=5)
        for is_mapped in (True, False)
    )
    assert np.array_equal(got.state_.totals, expected.state_.totals)


@pytest.mark.parametrize("known", [True, False])
def test_features_are_matched_by_position_where_names_are_missing(small, known):
    """In the networks of the fit, or in those that follow."""
    words = named(small, [f"w{f}" for f in range(9)])
    first, second = (words, small) if known else (small, words)
    got = fs.SPML.paper(n_iters=8).fit(first).partial_fit(second, n_iters=5)
    expected = fs.SPML.paper(n_iters=13).fit(small)
    assert np.array_equal(got.state_.totals, expected.state_.totals)


@pytest.mark.filterwarnings("ignore:.* left out")
@pytest.mark.parametrize("weighting", ["tfidf", "l2", None])
def test_a_model_ranks_the_networks_that_it_continued_on(weighting):
    """Their features are more than those of the metric, or in another order."""
    counts = fs.synthetic_networks(n_tasks=1, n_nodes=60, n_features=40, words_per_node=8, seed=1)[0]
    words = np.array([f"w{f}" for f in range(40)])
    whole = fs.Network(counts.features, counts.adjacency, nodes=[f"n{i}" for i in range(60)], vocabulary=words)
    old = fs.Network(counts.features[:, 12:], counts.adjacency, nodes=whole.nodes, vocabulary=words[12:])
    model = fs.SPML(n_iters=50, weighting=weighting).fit(old).partial_fit(whole, 20)
    aligned = align_vocabulary(whole, model.metric_.vocabulary)[0]
    assert np.array_equal(fs.link_auc(model, whole, range(60)), fs.link_auc(model, aligned, range(60)), equal_nan=True)
    links = [model.predict_links(network, network.subset([1, 2]), k=3).to_csv() for network in (whole, aligned)]
    assert links[0] == links[1]
    assert model.objective(whole) == model.objective(aligned)
    assert model.calibrate(whole).calibrations_


def test_a_full_metric_that_outgrows_the_memory_is_refused(small, grown, monkeypatch):
    model = fs.SPML.paper(n_iters=8, metric="full").fit(named(small, [f"w{f}" for f in range(9)]))
    monkeypatch.setattr("fastspml.training.memory.available_memory", lambda: 4.5 * 8 * 9**2)
    with pytest.raises(MemoryError, match="a full metric of 11 features takes"):
        model.partial_fit(grown)
    assert model.n_features_ == 9


@pytest.mark.parametrize("has_one", [True, False])
def test_the_tokenizer_of_new_texts_is_the_last_that_is_known(small, has_one):
    first, second = fs.Tokenizer(min_df=3), fs.Tokenizer(min_df=4)
    model = fs.SPML.paper(n_iters=5).fit(small.replace(tokenizer=first))
    assert model.tokenizer_ == first
    model.partial_fit(small.replace(tokenizer=second if has_one else None), 5)
    assert model.tokenizer_ == (second if has_one else first)


def test_tasks_have_the_tokenizer_of_the_first_that_has_one(tasks):
    tokenizers = [None, fs.Tokenizer(min_df=3), fs.Tokenizer(min_df=4)]
    given = [task.replace(tokenizer=tokenizer) for task, tokenizer in zip(tasks, tokenizers, strict=True)]
    assert fs.MTSPML.paper(n_iters=5).fit(given).tokenizer_ == tokenizers[1]
    assert fs.MTSPML.paper(n_iters=5).fit(tasks).tokenizer_ is None


def test_hidden_nodes_of_a_run_are_forgotten(small):
    model = fs.SPML.paper(n_iters=5).fit(small)
    model.hidden_nodes_, model.n_nodes_ = [np.array([1])], [14]
    again = copy.deepcopy(model)
    assert not hasattr(model.partial_fit(small, n_iters=1), "hidden_nodes_")
    assert not {"hidden_nodes_", "n_nodes_"} & vars(again.fit(small)).keys()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda net: fs.Network(np.ones((14, 8)), net.adjacency, net.name), "has 8 features and the model 9, which cannot"),
        (lambda net: fs.Weighting("l2").fit_transform(net), "has another weighting than"),
        (lambda net: net.replace(name="games"), "the tasks of this model are task 0, .* use add_task to add a task"),
        (lambda net: fs.Network(net.features, None, net.name), "'task 0' has no links; a model needs some"),
    ],
)  # fmt: skip
def test_what_a_model_cannot_go_on_with_leaves_it_as_it_is(small, make, sentence):
    model = fs.MTSPML.paper(n_iters=5).fit(small)
    totals = model.state_.totals.copy()
    with pytest.raises(ValueError, match=sentence):
        model.partial_fit(make(small))
    assert np.array_equal(model.state_.totals, totals)
    assert model.n_iters_ == 5


def test_a_hand_weighted_network_over_other_words_is_refused(small):
    words = [f"w{f}" for f in range(9)]
    model = fs.SPML.paper(n_iters=5).fit(fs.Weighting("l2").fit_transform(named(small, words)))
    with pytest.raises(ValueError, match="was weighted over another vocabulary than the model's"):
        model.partial_fit(fs.Weighting("l2").fit_transform(named(small, words[::-1])))


@pytest.mark.parametrize("n_iters", [0, -1, 2.5, True])
def test_iterations_must_be_some(small, n_iters):
    with pytest.raises(ValueError, match="n_iters must be a positive integer"):
        fs.SPML.paper(n_iters=5).fit(small).partial_fit(small, n_iters)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_resuming_a_finished_fit_changes_nothing(small, form):
    model = fs.SPML.paper(n_iters=6, metric=form).fit(small)
    totals = model.state_.totals.copy()
    assert model.resume(small).n_iters_ == 6
    assert np.array_equal(model.state_.totals, totals)


def test_resume_is_for_the_same_words_only(small, grown):
    model = fs.SPML.paper(n_iters=5, metric="full").fit(
        fs.Network(small.features * np.r_[0, np.ones(8)], small.adjacency)
    )
    with pytest.raises(ValueError, match="features that the model was not trained on; use partial_fit"):
        model.set_params(n_iters=9).resume(fs.Network(small.features, small.adjacency))


# ---- one more task --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("project", ["each", "combined"])
@pytest.mark.parametrize("projection", ["never", "every", 4])
@pytest.mark.parametrize("common", ["frozen", "moving"])
@pytest.mark.parametrize("form", FORMS)
def test_an_added_task_follows_the_textbook(tasks, form, common, projection, project):
    params = {"metric": form, "common_reg": 0.04, "task_reg": 0.05, "margin": 0.7, "seed": SEED, "batch_size": BATCH}
    model = fs.MTSPML.paper(n_iters=12, projection=projection, project=project, **params).fit(tasks[:2])
    before, others = matrix_of(model.common_metric_), [matrix_of(metric) for metric in model.task_metrics_]
    if common == "frozen":
        draws, goes_on = batches(tasks[2], 2, range(1, 11), SEED ^ int(FROZEN_SEED)), {}
    else:
        draws, goes_on = batches(tasks[2], 2, range(13, 23)), {"common_reg": 0.04, "t_before": 12}
    expected = naive.added_task(before, dense(tasks[2])[0], draws, 0.02, form, 0.7, projection, project, **goes_on)
    model.add_task(tasks[2], n_iters=10, common=common, task_reg=0.02)
    assert_close(matrix_of(model.common_metric_), expected[0])
    assert_close(matrix_of(model.task_metrics_[2]), expected[1])
    assert_close(matrix_of(model.metric("task 2")), expected[2])
    assert all(np.array_equal(matrix_of(m), other) for m, other in zip(model.task_metrics_, others, strict=False))
    assert model.task_reg == [0.05, 0.05, 0.02]
    if common == "frozen":
        assert np.array_equal(matrix_of(model.common_metric_), before)
        assert model.violations_.shape == (12, 3)
    else:
        assert model.violations_[12:].tolist() == [[-1, -1, n_violated] for n_violated in expected[3]]
    assert (model.violations_[:12, 2] == -1).all()


@pytest.mark.parametrize("common", ["frozen", "moving"])
def test_the_work_of_an_added_task_is_added(tasks, common):
    """30 iterations of two tasks, and 20 of the new one, with 7 triplets each."""
    records = []
    model = fs.MTSPML.paper(n_iters=30, batch_size=BATCH).fit(tasks[:2])
    before = model.state_.work
    model.add_task(tasks[2], 20, common=common, progress=records.append)
    assert before["evaluated"] == 30 * 2 * BATCH
    assert model.state_.work == {name: before[name] + count for name, count in records[-1].work.items()}
    assert records[-1].work["evaluated"] == 20 * BATCH
    assert records[-1].violations.shape == (20, 1)
    assert 0 < records[-1].work["violated"] == records[-1].violations.sum()


def test_a_task_with_an_infinite_weight_has_the_common_metric(tasks):
    model = fs.MTSPML.paper(n_iters=12).fit(tasks[:2]).add_task(tasks[2], 5, task_reg=np.inf)
    assert not model.task_metrics_[2].weights.any()
    assert np.array_equal(model.metric(2).weights, model.common_metric_.weights)


def test_a_task_is_added_from_one_network(tasks):
    model = fs.MTSPML.paper(n_iters=5).fit(tasks[:2])
    with pytest.raises(TypeError, match="add_task needs the Network of the new task, got list"):
        model.add_task(tasks[2:])


def test_frozen_means_that_no_bit_of_the_others_changes(tasks):
    model = fs.MTSPML.paper(n_iters=30, batch_size=BATCH, project="combined").fit(tasks[:2])
    before = [model.common_metric_.weights, *(model.metric(q).weights for q in (0, 1)), model.state_.totals.copy()]
    model.add_task(tasks[2], n_iters=25)
    after = [model.common_metric_.weights, *(model.metric(q).weights for q in (0, 1)), model.state_.totals[:, :3]]
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
    assert np.any(model.task_metrics_[2].weights)
    assert model.n_iters_ == 30


@pytest.mark.parametrize("common", ["frozen", "moving"])
@pytest.mark.parametrize("form", FORMS)
def test_all_tasks_go_on_together_each_by_its_own_clock(tasks, form, common, tmp_path):
    params = {"common_reg": 0.04, "task_reg": 0.05, "margin": 0.7, "seed": SEED, "batch_size": BATCH}
    model = fs.MTSPML.paper(n_iters=12, metric=form, projection="never", **params).fit(tasks[:2])
    model.add_task(tasks[2], n_iters=10, common=common)
    fs.save_model(tmp_path / "m.h5", model)
    model = fs.load_model(tmp_path / "m.h5")
    M_0, M = matrix_of(model.common_metric_), [matrix_of(metric) for metric in model.task_metrics_]
    t, clocks = {"frozen": 12, "moving": 22}[common], [12, 12, 10]
    for k in (1, 2, 3):
        gradients = [
            naive.data_subgradient(
                M_0 + M[q], dense(tasks[q])[0], batches(tasks[q], q, [t + k])[0], 0.7, form
            )[0]
            for q in range(3)
        ]  # fmt: skip
        M = [M[q] - (0.05 * M[q] + gradients[q]) / (0.05 * (clocks[q] + k)) for q in range(3)]
        M_0 = M_0 - (0.04 * (M_0 - np.eye(len(M_0))) + sum(gradients)) / (0.04 * (t + k))
    model.partial_fit(tasks, n_iters=3)
    assert_close(matrix_of(model.common_metric_), M_0)
    for q in range(3):
        assert_close(matrix_of(model.task_metrics_[q]), M[q])


@pytest.mark.parametrize("form", FORMS)
def test_an_added_task_may_bring_words(small, grown, form):
    model = fs.MTSPML.paper(n_iters=12, metric=form, projection="never").fit(named(small, [f"w{f}" for f in range(9)]))
    before = matrix_of(model.common_metric_)
    model.add_task(grown.replace(name="more"), n_iters=10)
    after = matrix_of(model.common_metric_)
    assert np.array_equal(after[:9, :9], before)
    assert np.array_equal(after[9:], np.eye(11)[9:])
    assert model.task_metrics_[1].diagonal_entries[9:].any()
    assert not model.task_metrics_[0].diagonal_entries[9:].any()


@pytest.mark.parametrize("common", ["frozen", "moving"])
def test_an_added_task_keeps_its_metric_while_another_is_added(tasks, common):
    model = fs.MTSPML.paper(n_iters=12).fit(tasks[:2]).add_task(tasks[2], n_iters=5, common=common)
    expected = model.task_metrics_[2].weights.copy()
    model.add_task(make_network(8), n_iters=5, common=common)
    assert expected.any()
    assert np.array_equal(model.task_metrics_[2].weights, expected)


def test_progress_stops_a_task_and_keeps_what_it_learned(tasks, monkeypatch):
    monkeypatch.setattr("fastspml.training.chunks.CHUNK_TRIPLETS", 50)
    model = fs.MTSPML.paper(n_iters=12).fit(tasks[:2])
    model.add_task(tasks[2], n_iters=100, common="moving", progress=lambda record: record.iteration >= 20)
    assert 20 <= model.n_iters_ < 112
    assert model.violations_.shape == (model.n_iters_, 3)
    assert model.state_.iteration + model.state_.ahead[3] == model.n_iters_ - 12


def test_a_report_of_an_added_task_has_no_negative_share(tasks):
    from fastspml.report.summary import _convergence

    model = fs.MTSPML.paper(n_iters=12).fit(tasks[:2]).add_task(tasks[2], n_iters=5, common="moving")
    shares = _convergence(model, tasks)["violated"]
    assert min(min(task["share"]) for task in shares) >= 0.0


@pytest.mark.parametrize(
    ("params", "call", "sentence"),
    [
        ({}, {"common": "thawed"}, "common must be 'frozen' or 'moving', got 'thawed'"),
        ({"average": True}, {}, "no task can be added to a model with average=True"),
        ({"task_reg": [0.1, 0.2]}, {}, "one per task; give task_reg for the new one"),
        ({}, {"task_reg": -1.0}, "task_reg must be a positive number"),
        ({}, {"network": make_network(1)}, "there is a task called 'task 1' already; use partial_fit"),
    ],
)
def test_tasks_that_cannot_be_added(tasks, params, call, sentence):
    model = fs.MTSPML.paper(n_iters=5, **params).fit(tasks[:2])
    with pytest.raises(ValueError, match=sentence):
        model.add_task(**{"network": tasks[2]} | call)
    assert model.task_names_ == ["task 0", "task 1"]


def test_a_model_must_be_fitted_before_tasks_are_added(small):
    with pytest.raises(ValueError, match="has not been fitted"):
        fs.MTSPML.paper().add_task(small)


def test_networks_of_other_tasks_are_refused_without_a_change():
    words = [f"w{f}" for f in range(9)]
    model = fs.MTSPML(metric="diagonal", n_iters=20, weighting="l2")
    model.fit([make_network(q, vocabulary=words, name=f"t{q}") for q in range(2)])
    others = [make_network(q, vocabulary=[*words[:-1], "new"], name=f"u{q}") for q in range(2)]
    with pytest.raises(ValueError, match="use add_task"):
        model.partial_fit(others, 5)
    assert model.weighting_.n_features_ == 9
