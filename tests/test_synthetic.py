"""Planted networks: exact sizes, the same bits for the same seed, and weights that can be found again."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import fastspml as fs


def test_sizes_are_exact():
    networks, weights = fs.synthetic_networks(
        n_tasks=2, n_nodes=70, n_features=50, words_per_node=20, links_per_node=3, return_weights=True
    )
    assert [network.name for network in networks] == ["task 0", "task 1"]
    assert weights.shape == (2, 50)
    for network in networks:
        assert (np.diff(network.features.indptr) == 20).all()
        assert network.features.has_canonical_format
        assert network.degrees.max() <= 3
        assert network.n_links > 70
        assert network.features.data.min() >= 1


def test_the_same_seed_gives_the_same_bits_everywhere():
    network = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=80, words_per_node=9, links_per_node=4, seed=5)[
        0
    ]
    digest = hashlib.sha256()
    for array in (network.features.indices, network.features.data, network.adjacency.indptr, network.adjacency.indices):
        digest.update(array.tobytes())
    assert digest.hexdigest() == "2cad1c94d0aeb5decb24ab263ce750d6d4a6dfbd792befc8ad8581d96e2d8e11"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({}, "ad2d70a591a6ee32"),
        ({"n_nodes": 30, "n_features": 8, "words_per_node": 4, "links_per_node": 2}, "36905c936b4d298a"),
        ({"n_tasks": 2, "n_nodes": 50, "n_features": 1000, "words_per_node": 100, "links_per_node": 3, "seed": 2**64 - 1}, "277a7195bee34ee9"),
        ({"n_tasks": 1, "n_nodes": 9, "n_features": 3, "words_per_node": 1, "links_per_node": 5, "seed": 1}, "fb0b57f36b8b225d"),
        ({"n_tasks": 4, "n_nodes": 20, "n_features": 60, "words_per_node": 0, "links_per_node": 2}, "ea1b9c5cce9ba7cf"),
        ({"n_tasks": 1, "n_nodes": 20, "n_features": 60, "words_per_node": 9, "links_per_node": 0}, "62bb94d4aff26f44"),
    ],
    ids=["defaults", "few features", "many words", "three features", "no words", "no links"],
)  # fmt: skip
def test_networks_of_any_size_and_their_weights_keep_their_bits(sizes, expected):
    networks, weights = fs.synthetic_networks(**sizes, return_weights=True)
    digest = hashlib.sha256(weights.tobytes())
    for network in networks:
        for matrix, parts in (
            (network.features, ("indptr", "indices", "data")),
            (network.adjacency, ("indptr", "indices")),
        ):
            for part in parts:
                digest.update(getattr(matrix, part).tobytes())
        assert network.nodes.tolist() == list(range(network.n_nodes))
        assert not network.has_node_names
    assert digest.hexdigest()[:16] == expected


def test_a_fifth_of_the_words_of_a_node_is_of_a_topic_that_causes_links():
    """Another fifth is of a topic that does not, and words of topics are every fifth of the rarer ones."""
    networks, weights = fs.synthetic_networks(
        n_tasks=2, n_nodes=300, n_features=1000, words_per_node=50, return_weights=True
    )
    for network, weight in zip(networks, weights, strict=True):
        words = np.flatnonzero(weight)
        assert set(words % 5) == {0}
        assert words.min() >= 100
        assert (weight[words] >= 0.5).all()
        assert (weight[words] < 1.5).all()
        n_relevant = (network.features[:, words] > 0).sum(axis=1)
        assert 8 < n_relevant.mean() < 14
    assert (weights[0] != weights[1]).any()
    assert ((weights[0] > 0) & (weights[1] > 0)).any()


def test_topics_of_few_words_are_of_all_tasks_of_one_or_of_none_in_turn():
    """Of 18 rarer words, every third has a topic of its own: for all tasks, task 0, task 1, task 2, none, and all."""
    _, weights = fs.synthetic_networks(3, n_nodes=2, n_features=20, words_per_node=1, return_weights=True)
    assert [np.flatnonzero(weight).tolist() for weight in weights] == [[2, 5, 17], [2, 8, 17], [2, 11, 17]]


def test_nodes_without_planted_words_link_to_random_nodes():
    """A fifth of the nodes have none, the last node among them; one in ten links of the others is random."""
    (network,), (weight,) = fs.synthetic_networks(1, 100, 3, 1, links_per_node=20, seed=16, return_weights=True)
    is_plain = weight[network.features.indices] == 0
    assert is_plain.sum() == 21
    assert is_plain[-1]
    of_plain, of_others = (
        network.adjacency[rows][:, is_plain].nnz / network.adjacency[rows].nnz for rows in (is_plain, ~is_plain)
    )
    assert 0.15 < of_plain < 0.25
    assert 0.01 < of_others < 0.03


def test_learning_finds_the_planted_words():
    networks, weights = fs.synthetic_networks(
        n_tasks=2, n_nodes=400, n_features=300, words_per_node=30, links_per_node=6, return_weights=True
    )
    model = fs.MTSPML.paper(weighting="tfidf", common_reg=1e-4, task_reg=1e-4, n_iters=3000).fit(networks)
    for q in range(2):
        assert np.corrcoef(weights[q], model.metric(q).weights)[0, 1] > 0.5


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"n_nodes": 0}, "n_nodes must be a positive integer, got 0"),
        ({"words_per_node": 2000}, "words_per_node must be from 0 to half of n_features, 1500; got 2000"),
        ({"links_per_node": -1}, "links_per_node must be an integer from 0, got -1"),
        ({"links_per_node": 1.5}, "links_per_node must be an integer from 0, got 1.5"),
        ({"words_per_node": "a"}, "words_per_node must be from 0 to half of n_features, 1500; got 'a'"),
        ({"n_tasks": 0}, "n_tasks must be a positive integer, got 0"),
        ({"n_features": 0}, "n_features must be a positive integer, got 0"),
        ({"words_per_node": -1}, "words_per_node must be from 0 to half of n_features, 1500; got -1"),
        ({"words_per_node": 1501}, "words_per_node must be from 0 to half of n_features, 1500; got 1501"),
        ({"seed": 2**64}, r"seed must be an integer from 0 to 2\*\*64 - 1, got"),
        ({"seed": -1}, r"seed must be an integer from 0 to 2\*\*64 - 1, got -1"),
    ],
)
def test_mistakes_cost_a_sentence(sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.synthetic_networks(**sizes)


@pytest.mark.parametrize(
    "sizes", [{"words_per_node": 0}, {"links_per_node": 0}, {"n_features": 4, "words_per_node": 2}, {"n_nodes": 1}]
)
def test_odd_sizes(sizes):
    network = fs.synthetic_networks(**{"n_tasks": 1, "n_nodes": 20, "n_features": 30, "words_per_node": 5} | sizes)[0]
    assert network.n_nodes in (1, 20)
