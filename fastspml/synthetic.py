"""Synthetic networks of any size: nodes link because they share words with planted weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastspml.checks import check_integer, check_positive_integer, check_seed, is_whole, quoted
from fastspml.network import Network
from fastspml.sparse.csr import csr_from_parts, freeze_csr, index_dtype

# The first n_features / FREQUENT_SHARE words belong to no topic; of the others, every TOPICAL_EVERY-th does.
FREQUENT_SHARE, TOPICAL_EVERY = 10, 5
TOPIC_WORDS = 16
# The share of a node's words from a topic that causes links, and the same share from a topic that does not.
TOPIC_SHARE = 0.2
# The share of links to a random node.
NOISE_SHARE = 0.1

MIX_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
MIX_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def synthetic_networks(
    n_tasks: int = 3,
    n_nodes: int = 2000,
    n_features: int = 3000,
    words_per_node: int = 50,
    links_per_node: int = 10,
    seed: int = 0,
    return_weights: bool = False,
) -> Any:
    """Make networks in which nodes link because they share words with planted weights.

    Some topics (groups of words) cause links in all tasks, some in one task, some in none. A node has exactly
    `words_per_node` distinct words with counts of at least 1: a fifth from a topic that causes links in its task, a
    fifth from a topic that does not, and the rest from the whole vocabulary, where the probability of word f falls like
    f^(-2/3). For each of its links a node picks one of its words by planted weight, and then a random node with that
    word; one link in ten goes to a random node. Links are directed, and duplicates are merged. Time grows with the
    number of words and links only. The same seed gives the same bits on every machine.

    Parameters
    ----------
    n_tasks, n_nodes, n_features : int
        Number of networks, of nodes in each, and of features.
    words_per_node : int
        At most half of `n_features`.
    links_per_node : int
        Links drawn for each node, before duplicates are merged.
    seed : int
    return_weights : bool
        Whether to return the planted weights, too.

    Returns
    -------
    networks : list of Network, named "task 0", "task 1", ...
    weights : array, shape (n_tasks, n_features), if `return_weights`
        The planted weight of every word in every task.

    Examples
    --------
    >>> import fastspml as fs
    >>> fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=50, words_per_node=5, links_per_node=2)
    [Network('task 0': 100 nodes, 189 links, 50 features)]
    """
    for name, value in (("n_tasks", n_tasks), ("n_nodes", n_nodes), ("n_features", n_features)):
        check_positive_integer(name, value)
    check_seed(seed, 64)
    if not is_whole(words_per_node) or not 0 <= words_per_node <= n_features // 2:
        raise ValueError(
            f"words_per_node must be from 0 to half of n_features, {n_features // 2}; got {quoted(words_per_node)}."
        )
    check_integer("links_per_node", links_per_node, 0)
    topics = _topics(n_features, n_kinds=n_tasks + 2)
    importance = 0.5 + _Stream(seed, 0).uniform(n_features)
    networks, weights = [], []
    for task in range(n_tasks):
        random = _Stream(seed, task + 1)
        relevant, irrelevant = _by_relevance(topics, task, n_kinds=n_tasks + 2)
        task_weights = np.zeros(n_features)
        task_weights[relevant] = importance[relevant]
        features = _features(n_nodes, n_features, words_per_node, relevant, irrelevant, random)
        adjacency = _links(features, task_weights, links_per_node, random)
        empty = Network(np.zeros((0, n_features)), name=f"task {task}")
        networks.append(empty.replace(features=features, adjacency=adjacency, nodes=np.arange(n_nodes)))
        weights.append(task_weights)
    return (networks, np.array(weights)) if return_weights else networks


class _Stream:
    """Random 64-bit words by SplitMix64, in arrays; integer arithmetic only, so equal on every machine."""

    def __init__(self, seed: int, stream: int) -> None:
        self._key = _mix(_mix(np.array([seed], dtype=np.uint64) + GOLDEN) + np.array([stream + 1], np.uint64) * GOLDEN)
        self._n_used = 0

    def below(self, bound: Any, shape: int | tuple[int, ...]) -> np.ndarray:
        """Return int64 integers from 0 to bound - 1; bound, below 2^32, may be an array of that shape."""
        high = self._words(shape) >> np.uint64(32)
        return ((high * np.asarray(bound).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)

    def uniform(self, shape: int | tuple[int, ...]) -> np.ndarray:
        """Return numbers in [0, 1) with 53 random bits."""
        return (self._words(shape) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _words(self, shape: int | tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape))
        counters = np.arange(self._n_used + 1, self._n_used + size + 1, dtype=np.uint64)
        self._n_used += size
        return _mix(self._key + counters * GOLDEN).reshape(shape)


def _mix(words: np.ndarray) -> np.ndarray:
    words = (words ^ (words >> MIX_SHIFTS[0])) * MIX_FACTORS[0]
    words = (words ^ (words >> MIX_SHIFTS[1])) * MIX_FACTORS[1]
    return words ^ (words >> MIX_SHIFTS[2])


def _topics(n_features: int, n_kinds: int) -> np.ndarray:
    """Return the words of each topic, shape (topics, words); each kind has a topic if there are enough words."""
    first = n_features // FREQUENT_SHARE
    topical = np.arange(first, n_features, min(TOPICAL_EVERY, max(1, (n_features - first) // n_kinds)))
    n_words = max(1, min(TOPIC_WORDS, len(topical) // n_kinds))
    n_topics = len(topical) // n_words
    return topical[: n_topics * n_words].reshape(n_topics, n_words)


def _by_relevance(topics: np.ndarray, task: int, n_kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the topics that cause links in a task, and those that do not.

    Kinds of topics alternate: for all tasks, for task 0, for task 1, ..., and for no task.
    """
    kinds = np.arange(len(topics)) % n_kinds
    is_relevant = (kinds == 0) | (kinds == task + 1)
    return topics[is_relevant], topics[~is_relevant]


def _features(
    n_nodes: int, n_features: int, words_per_node: int, relevant: np.ndarray, irrelevant: np.ndarray, random: _Stream
) -> Any:
    words = _zipf_like(n_features, random, (n_nodes, words_per_node))
    n_topical = int(TOPIC_SHARE * words_per_node)
    for place, topics in enumerate((relevant, irrelevant)):
        if len(topics):
            topic = topics[random.below(len(topics), n_nodes)]
            chosen = random.below(topics.shape[1], (n_nodes, n_topical))
            words[:, place * n_topical : (place + 1) * n_topical] = np.take_along_axis(topic, chosen, axis=1)
    words.sort(axis=1)
    while True:  # redraw the duplicates of each node
        is_double = np.zeros(words.shape, dtype=bool)
        is_double[:, 1:] = words[:, 1:] == words[:, :-1]
        n_double = int(is_double.sum())
        if n_double == 0:
            break
        words[is_double] = _zipf_like(n_features, random, n_double)
        rows = is_double.any(axis=1)
        words[rows] = np.sort(words[rows], axis=1)
    counts = 1 + random.below(3, words.size) * random.below(2, words.size)  # 1, 1, 1, 1, 2, 3
    indptr = np.arange(n_nodes + 1) * words_per_node
    return freeze_csr(
        csr_from_parts(
            counts.astype(np.float32), words.ravel().astype(index_dtype(n_features)), indptr, (n_nodes, n_features)
        )
    )


def _zipf_like(n_features: int, random: _Stream, shape: int | tuple[int, ...]) -> np.ndarray:
    """Draw words whose frequency falls with their rank r like r^(-2/3); equal bits on every machine."""
    u = random.uniform(shape)
    return (n_features * (u * u * u)).astype(np.int64)


def _links(features: Any, weights: np.ndarray, links_per_node: int, random: _Stream) -> Any:
    n_nodes = features.shape[0]
    sources = np.repeat(np.arange(n_nodes), links_per_node)
    targets = random.below(n_nodes, len(sources))  # for random links, and for nodes without weighted words
    # One of the node's words by planted weight: a random point in its interval of the cumulative weights.
    running = np.concatenate([[0.0], np.cumsum(weights[features.indices])])
    low, high = running[features.indptr[sources]], running[features.indptr[sources + 1]]
    point = low + (high - low) * random.uniform(len(sources))
    stored = np.searchsorted(running, point, side="right") - 1
    by_word = (high > low) & (random.uniform(len(sources)) >= NOISE_SHARE)
    # Then one of the nodes with that word.
    order = np.argsort(features.indices, kind="stable")
    word_starts = np.concatenate([[0], np.cumsum(np.bincount(features.indices, minlength=features.shape[1]))])
    if len(order):
        word = features.indices[np.minimum(stored, len(order) - 1)]
        n_with_word = word_starts[word + 1] - word_starts[word]
        chosen = order[word_starts[word] + random.below(n_with_word, len(sources))]
        targets = np.where(by_word, np.searchsorted(features.indptr, chosen, side="right") - 1, targets)
    codes = np.unique(sources[sources != targets] * n_nodes + targets[sources != targets])
    sources, targets = codes // n_nodes, codes % n_nodes
    indptr = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=n_nodes))])
    links = csr_from_parts(np.ones(len(codes), bool), targets.astype(index_dtype(n_nodes)), indptr, (n_nodes, n_nodes))
    return freeze_csr(links)
