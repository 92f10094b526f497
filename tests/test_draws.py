"""Draws: the twin's triplets, uniform over S however skewed the degrees, and never a hang."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy import stats

import fastspml as fs
from fastspml.kernels import draws, generator
from fastspml.training.layout import stack
from tests import naive
from tests.conftest import dense, make_network


def sample(networks, pooled=True, group=0, seed=1, t=1, size=1000):
    drawn = np.empty((size, 4), dtype=np.int64)
    stacked = stack(networks, not pooled)
    draws.sample_triplets(stacked, np.uint64(group), np.uint64(seed), np.uint64(t), drawn)
    return drawn, stacked


def network_of(links, **names):
    links = np.asarray(links)
    return fs.Network(np.ones((len(links), 1)), links, **names)


def star(n_nodes, center_misses=1):
    """Return a hub linked to nearly all, and nothing else: rejection would nearly never end."""
    links = np.zeros((n_nodes, n_nodes), dtype=int)
    links[0, 1 : n_nodes - center_misses] = 1
    return network_of(links)


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1, 123456789])
def test_mix(word):
    assert int(generator.mix(np.uint64(word))) == naive.mix(word)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**31 + 11, 2**63 + 1, 2**64 - 1])
def test_bounded(bound):
    for key in range(50):
        got = generator.bounded(np.uint64(key), np.uint64(0), np.uint64(bound))
        assert tuple(map(int, got)) == naive.bounded(key, 0, bound)


@njit
def high_half(a, b):
    return generator.multiply_high(a, b)


def test_wide_product():
    for a in (0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1):
        for b in (0, 3, 2**32 + 1, 2**64 - 1):
            assert high_half(np.uint64(a), np.uint64(b)) == (a * b) >> 64


@pytest.mark.parametrize("make", [lambda: [make_network()], lambda: [star(40)], lambda: [make_network(1), star(9, 4)]])
def test_triplets_are_the_twins(make):
    networks = make()
    got, stacked = sample(networks, size=200, seed=2**64 - 5, t=7)
    links = [dense(network)[1] for network in networks]
    expected = [
        naive.draw_triplet(links, 2**64 - 5, 0, 7, b, exact=bool(stacked.tasks.draws_by_number[0])) for b in range(200)
    ]
    assert got.tolist() == [list(triplet) for triplet in expected]


def test_tasks_have_streams_of_their_own(networks):
    got = [sample(networks, pooled=False, group=q, size=50)[0] for q in range(2)]
    expected = [naive.draw_triplet([dense(networks[1])[1]], 1, 1, 1, b, exact=False) for b in range(50)]
    assert got[1][:, 1:].tolist() == [list(triplet[1:]) for triplet in expected]
    assert got[0].tolist() != got[1].tolist()


@pytest.mark.parametrize(
    ("make", "by_number"),
    [
        (lambda: [make_network(3, 12)], False),  # with a hub
        (lambda: [star(40)], True),
        (lambda: [make_network(4, 12), make_network(5, 16)], False),
        (lambda: [star(40, 1), star(12, 1)], True),
    ],
)
def test_uniform_over_the_enumerated_set(make, by_number):
    networks = make()
    drawn, stacked = sample(networks, size=400_000)
    assert bool(stacked.tasks.draws_by_number[0]) is by_number
    triplets = [
        (q, *triplet)
        for q, network in enumerate(networks)
        for triplet in naive.enumerate_triplets(dense(network)[1]).tolist()
    ]
    number = {triplet: k for k, triplet in enumerate(triplets)}
    counts = np.bincount([number[tuple(row)] for row in drawn.tolist()], minlength=len(triplets))
    assert stats.chisquare(counts).pvalue > 1e-4


def test_a_node_linked_to_nearly_all_does_not_hang():
    links = np.ones((2000, 2000), dtype=int) - np.eye(2000, dtype=int)
    links[5, 6] = 0
    drawn, stacked = sample([network_of(links)], size=100)
    assert stacked.tasks.draws_by_number[0]
    assert set(drawn[:, 1]) == {5}
    assert set(drawn[:, 2]) == {6}


@pytest.mark.parametrize(
    ("links", "sentence"),
    [
        (np.zeros((3, 3)), "'games' has no links"),
        (np.ones((3, 3)) - np.eye(3), "no triplet can be drawn from 'games': none of the 3 linked nodes has both"),
        (np.zeros((0, 0)), "'games' has no links"),
    ],
)
def test_an_empty_set_is_refused(links, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.SPML.paper().fit(network_of(links, name="games"))


def test_one_empty_task_is_fine_pooled_but_not_alone(network):
    empty = fs.Network(np.zeros((3, network.n_features)), name="empty")
    assert set(sample([network, empty])[0][:, 0]) == {0}
    with pytest.raises(ValueError, match="'empty' has no links"):
        fs.MTSPML.paper().fit([network, empty])


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.floats(0.05, 0.95), st.integers(0, 2**32))
def test_every_draw_is_a_triplet(n_nodes, density, seed):
    rng = np.random.default_rng(seed)
    links = (rng.random((n_nodes, n_nodes)) < density) & ~np.eye(n_nodes, dtype=bool)
    network = network_of(links)
    if network.n_triplets == 0:
        return
    for _, i, j, l in sample([network], size=100, seed=seed)[0]:
        assert links[i, l]
        assert not links[i, j]
        assert i != j


def test_the_first_draws_never_change():
    """A saved run can be resumed only if the generator never changes."""
    i, j = np.indices((40, 40))
    drawn, _ = sample([network_of(((7 * i + 11 * j) % 5 == 0) & (i != j))], size=5000, seed=42)
    digest = hashlib.sha256(drawn.tobytes()).hexdigest()
    assert digest == "327124423e744545a8978e0f4e1f60dbc8e1a776e9ca7811de56cb29c98969de"


def test_the_filter_has_the_bits_of_all_links():
    rng = np.random.default_rng(3)
    adjacencies = [rng.random((n, n)) < density for n, density in ((12, 0.3), (40, 0.05), (5, 0.9))]
    for adjacency in adjacencies:
        np.fill_diagonal(adjacency, False)
    stacked = stack([fs.Network(np.ones((len(links), 1)), links) for links in adjacencies], has_tasks=True)
    link_filter = stacked.links.filter
    n_bits = 64 * len(link_filter)
    assert n_bits >= 16 * sum(links.sum() for links in adjacencies)
    got = np.unpackbits(link_filter.view(np.uint8), bitorder="little").astype(bool)
    assert np.array_equal(got, naive.fill_filter(adjacencies, n_bits))
    for q, links in enumerate(adjacencies):
        for i, j in np.ndindex(*links.shape):
            node = stacked.tasks.node_starts[q] + np.uint64(i)
            assert draws.are_linked(stacked.links, node, np.uint64(j)) == links[i, j]


def test_the_filter_does_not_change_the_draws():
    """Hubs with many links: whether the filter excludes a pair or its row is searched, the same triplets are drawn."""
    rng = np.random.default_rng(0)
    links = np.zeros((200, 200), dtype=bool)
    links[:3] = rng.random((3, 200)) < 0.7
    links |= links.T
    links[np.diag_indices(200)] = False
    stacked = stack([fs.Network(np.ones((200, 1)), links)], has_tasks=False)
    drawn = [np.empty((5000, 4), dtype=np.int64) for _ in range(2)]
    always = np.full(3, 2**64 - 1, dtype=np.uint64)  # every pair may be linked
    for link_filter, triplets in zip((stacked.links.filter, always), drawn, strict=True):
        one = stacked._replace(links=stacked.links._replace(filter=link_filter))
        draws.sample_triplets(one, np.uint64(0), np.uint64(1), np.uint64(1), triplets)
    assert np.array_equal(*drawn)
    _, i, j, l = drawn[0].T
    assert links[i, l].all()
    assert not links[i, j].any()
    assert (i != j).all()
