"""The same work with other libraries, each used as efficiently as we could, on the same triplets.

A triplet under a diagonal metric is an example of a linear classifier. With g = (x_i - x_l)^2 - (x_i - x_j)^2, word by
word, the gap d(i, l) - d(i, j) is w . g, and its loss max(0, w . g + 1) is the hinge loss max(0, 1 - y w . z) of the
example z = g with label y = -1, or z = -g with y = 1. So scikit-learn minimises (3) of the paper once the rows g are
written out: alpha is reg, and C of LIBLINEAR, which minimises |w|^2 / 2 + C sum of losses, is 1 / (reg m).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from bench.speed import networks, plain_numba
from bench.speed.cases import REG, Case
from bench.speed.timing import interleaved
from fastspml import Network
from fastspml.kernels import draws
from fastspml.training.layout import stack

SOLVERS_REG = 1e-4  # of scikit-learn's solvers; how long LIBLINEAR takes depends on it
BPR_EPOCHS = 2

MODULES = {"PyTorch": "torch", "scikit-learn": "sklearn", "metric-learn": "metric_learn", "implicit": "implicit"}


def missing(peer: str) -> str | None:
    """Return why a peer cannot be measured here, or None if it can."""
    module = MODULES[peer]
    return None if find_spec(module) else f"{peer} is not installed (pip install '.[bench]')"


def draw(network: Network, n_iters: int, batch_size: int, seed: int = 0, first: int = 1) -> np.ndarray:
    """Return the triplets i, j, l that fastspml draws, shape (n_iters, batch_size, 3); `first` is their iteration."""
    laid_out = stack([network], has_tasks=False, with_rows=False)
    drawn = np.empty((n_iters, batch_size, 4), dtype=np.int64)
    for t in range(n_iters):
        draws.sample_triplets(laid_out, np.uint64(0), np.uint64(seed), np.uint64(first + t), drawn[t])
    return drawn[:, :, 1:]


def attributes(network: Network, dtype: Any = np.float64) -> sparse.csr_array:
    """Return the rows x, with the 32-bit indices that SciPy is fastest on."""
    rows = sparse.csr_array(network.features, dtype=dtype)
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows


# ---- writing triplets out -------------------------------------------------------------------------------------------


def differences(rows: sparse.csr_array, one: np.ndarray, other: np.ndarray) -> sparse.csr_array:
    """Return x_one - x_other of many pairs: one product with a matrix that has 1 and -1 in each row."""
    pairs = np.stack([one, other], axis=1).astype(np.int32).ravel()
    signs = np.tile(np.array([1.0, -1.0], rows.dtype), len(one))
    starts = np.arange(0, 2 * len(one) + 1, 2, dtype=np.int32)
    return sparse.csr_array((signs, pairs, starts), shape=(len(one), rows.shape[0])) @ rows


def write_out(rows: sparse.csr_array, triplets: np.ndarray) -> sparse.csr_array:
    """Return the rows g of triplets, shape (m, d); the fastest way that we found in SciPy."""
    i, j, l = triplets.T
    linked, unlinked = differences(rows, i, l), differences(rows, i, j)
    linked.data *= linked.data
    unlinked.data *= unlinked.data
    return linked - unlinked


def write_out_plainly(rows: sparse.csr_array, triplets: np.ndarray) -> sparse.csr_array:
    """Return the rows g in the obvious way: select, subtract and square rows."""
    i, j, l = triplets.T
    anchors = rows[i]
    linked, unlinked = anchors - rows[l], anchors - rows[j]
    return linked.multiply(linked) - unlinked.multiply(unlinked)


def as_examples(written: sparse.csr_array) -> tuple[sparse.csr_array, np.ndarray]:
    """Return z and y for a linear classifier; every other row is negated, because a classifier needs two classes."""
    signs = np.where(np.arange(written.shape[0]) % 2, 1.0, -1.0)
    turned = written.copy()
    turned.data *= np.repeat(-signs, np.diff(written.indptr))
    return turned, signs


# ---- Algorithm 1 in SciPy and in PyTorch ----------------------------------------------------------------------------


class ScipySPML:
    """Algorithm 1, a batch at a time; triplets are given.

    The totals are kept as fastspml keeps them, so that a step touches no other words. Tuned, one product makes all
    differences of a batch, and the two halves of a row g are never put together.
    """

    def __init__(self, network: Network, reg: float, margin: float = 1.0, tuned: bool = True) -> None:
        self.rows, self.reg, self.margin = attributes(network), reg, margin
        self.parts = self._halves if tuned else write_out_plainly

    def _halves(self, rows: sparse.csr_array, batch: np.ndarray) -> sparse.csr_array:
        """Return (x_i - x_l)^2 of all triplets, and below them -(x_i - x_j)^2."""
        i, j, l = batch.T
        squares = differences(rows, np.concatenate([i, i]), np.concatenate([l, j]))
        squares.data *= squares.data
        squares.data[squares.indptr[len(batch)] :] *= -1.0
        return squares

    def fit(self, triplets: np.ndarray) -> np.ndarray:
        """Return the totals after batches of triplets, shape (n_iters, batch_size, 3)."""
        *_, totals = self.iterates(triplets)
        return totals

    def iterates(self, triplets: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Yield the totals after each batch; always the same array."""
        totals, evaluated = (
            np.zeros(self.rows.shape[1]),
            np.full(self.rows.shape[1], self.reg),
        )  # starts at I
        for t, batch in enumerate(triplets, start=1):
            parts = self.parts(self.rows, batch)
            sums = (parts @ evaluated) / (self.reg * max(1, t - 1))
            is_violated = sums.reshape(-1, len(batch)).sum(axis=0) + self.margin > 0.0
            shares = np.resize(is_violated / -len(batch), len(sums))
            np.add.at(totals, parts.indices, np.repeat(shares, np.diff(parts.indptr)) * parts.data)
            evaluated = totals
            yield totals


def torch_dense(network: Network, reg: float, margin: float = 1.0, double: bool = False) -> Callable[..., np.ndarray]:
    """Return Algorithm 1 by autograd on the rows of a batch made dense: triplets -> weights."""
    import torch

    rows, dtype = network.features, torch.float64 if double else torch.float32

    def dense(nodes: np.ndarray) -> Any:
        return torch.from_numpy(rows[nodes].toarray()).to(dtype)

    def fit(triplets: np.ndarray) -> np.ndarray:
        weights = torch.ones(network.n_features, dtype=dtype, requires_grad=True)
        optimiser = torch.optim.SGD([weights])
        for t, batch in enumerate(triplets, start=1):
            x_i, x_j, x_l = (dense(nodes) for nodes in batch.T)
            gaps = ((x_i - x_l) ** 2 - (x_i - x_j) ** 2) @ weights
            loss = reg / 2 * (weights @ weights) + torch.relu(gaps + margin).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.param_groups[0]["lr"] = 1.0 / (reg * t)
            optimiser.step()
        return weights.detach().numpy()

    return fit


def torch_bags(network: Network, reg: float, margin: float = 1.0, double: bool = False) -> Callable[..., np.ndarray]:
    """Return Algorithm 1 by autograd with `embedding_bag` and sparse gradients: triplets -> weights.

    What is learned are the totals, so that the regulariser need not be stepped on. The words of l and j are the bags,
    and x_i, scattered to a dense row for each triplet of the batch, gives their factors.
    """
    import torch

    dtype, d = torch.float64 if double else torch.float32, network.n_features
    features = network.features
    indptr = torch.from_numpy(features.indptr.astype(np.int64))
    words, data = torch.from_numpy(features.indices.astype(np.int64)), torch.from_numpy(features.data.copy()).to(dtype)

    def entries(nodes: Any) -> tuple[Any, Any]:
        """Return the positions of the entries of rows, row by row, and the lengths of the rows."""
        starts, lengths = indptr[nodes], indptr[nodes + 1] - indptr[nodes]
        before = torch.cumsum(lengths, 0) - lengths
        return torch.repeat_interleave(starts - before, lengths) + torch.arange(int(lengths.sum())), lengths

    def fit(triplets: np.ndarray) -> np.ndarray:
        batch_size = triplets.shape[1]
        totals = torch.full((d, 1), reg, dtype=dtype, requires_grad=True)  # starts at I
        optimiser = torch.optim.SGD([totals])
        scattered = torch.zeros(batch_size * d, dtype=dtype)
        places = torch.arange(batch_size) * d
        for t, batch in enumerate(torch.from_numpy(np.ascontiguousarray(triplets)), start=1):
            of_i, lengths_i = entries(batch[:, 0])
            at = torch.repeat_interleave(places, lengths_i) + words[of_i]
            scattered[at] = data[of_i]
            found, lengths = entries(torch.cat([batch[:, 2], batch[:, 1]]))
            x, f = data[found], words[found]
            factors = x * (x - 2.0 * scattered[torch.repeat_interleave(places.repeat(2), lengths) + f])
            scattered[at] = 0.0
            sums = torch.nn.functional.embedding_bag(
                f, totals, torch.cumsum(lengths, 0) - lengths, mode="sum", sparse=True, per_sample_weights=factors
            )[:, 0]
            loss = torch.relu((sums[:batch_size] - sums[batch_size:]) / (reg * max(1, t - 1)) + margin).sum()
            optimiser.zero_grad()
            loss.backward()
            if t == 1:
                totals.data.zero_()
            optimiser.param_groups[0]["lr"] = reg * max(1, t - 1) / batch_size
            optimiser.step()
        return (totals.detach()[:, 0] / (reg * len(triplets))).numpy()

    return fit


# ---- solvers of linear classifiers on triplets written out ----------------------------------------------------------


def sgd_classifier(reg: float) -> Any:
    """Return scikit-learn's SGD for (3), with steps of about 1/(reg t); `partial_fit` makes a pass."""
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="hinge", alpha=reg, fit_intercept=False, random_state=0)


def liblinear(reg: float, n_triplets: int, tol: float) -> Any:
    """Return LIBLINEAR for (3), by dual coordinate descent."""
    from sklearn.svm import LinearSVC

    return LinearSVC(
        loss="hinge", dual=True, C=1.0 / (reg * n_triplets), fit_intercept=False, tol=tol, max_iter=1000, random_state=0
    )


def fit_quietly(solver: Any, examples: sparse.csr_array, labels: np.ndarray) -> np.ndarray:
    """Return the weights that a solver finds; `n_iter_`, not a warning, shows whether it stopped early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solver.fit(examples, labels).coef_[0]


# ---- others ---------------------------------------------------------------------------------------------------------

# BPR reads a row of factors where a triplet reads a row of words: about as many numbers as a package has words.
BPR_FACTORS = 31


def bpr(network: Network, epochs: int) -> Callable[[], Any]:
    """Return implicit's BPR on the links, one thread; an epoch takes as many samples as there are links."""
    from implicit.bpr import BayesianPersonalizedRanking

    links = sparse.csr_matrix(network.adjacency, dtype=np.float32, copy=True)  # it writes to them

    def fit() -> Any:
        model = BayesianPersonalizedRanking(factors=BPR_FACTORS, iterations=epochs, num_threads=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(links, show_progress=False)
        return model

    return fit


def metric_learn_says(network: Network) -> dict[str, str]:
    """Return the result or error of metric-learn on triplets of a small network, with sparse and with dense rows."""
    from metric_learn import SCML

    triplets = draw(network, 1, 50)[0][:, [0, 2, 1]]  # its order is i, neighbour, non-neighbour
    said = {}
    given = {"sparse rows": sparse.csr_matrix(network.features), "dense rows": network.features.toarray()}
    for kind, rows in given.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                SCML(preprocessor=rows).fit(triplets)
            said[kind] = "runs"
        except Exception as error:
            said[kind] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return said


# ---- side by side ---------------------------------------------------------------------------------------------------


def measure(
    tell: Callable[[str], None],
    quick: bool = False,
    network: Network | None = None,
    n_triplets: int = 200_000,
    repeats: int = 5,
) -> dict[str, Any]:
    """Return microseconds per triplet of fastspml and of every peer, one thread, diagonal, batches of 10 and of 100."""
    if quick:
        n_triplets, repeats = n_triplets // 4, min(3, repeats)
    network = networks.tfidf(network or networks.debian_packages())
    work: dict[str, tuple[int, Callable[[], Any]]] = {}  # the number of triplets, and the function
    for batch_size in (10, 100):
        label = f"batch {batch_size}"
        n_iters = max(1, n_triplets // batch_size)
        fit = Case("Debian packages", batch_size=batch_size).run(network, n_iters)
        work[f"fastspml, {label}"] = n_iters * batch_size, fit
        few = draw(network, min(n_iters, 200), batch_size)
        for name, tuned in (("SciPy, as one would write it", False), ("SciPy, tuned", True)):
            work[f"{name}, {label}"] = few[:, :, 0].size, partial(ScipySPML(network, REG, tuned=tuned).fit, few)
        triplets = draw(network, n_iters, batch_size)
        work[f"Numba, a plain loop, {label}"] = triplets[:, :, 0].size, partial(plain_numba.fit, network, triplets, REG)
        if missing("PyTorch") is None:
            work[f"PyTorch, dense rows, {label}"] = few[:20, :, 0].size, partial(torch_dense(network, REG), few[:20])
            work[f"PyTorch, embedding bags, {label}"] = few[:, :, 0].size, partial(torch_bags(network, REG), few)
    if missing("scikit-learn") is None:
        # As float32, because both writing out and SGD are faster then; LIBLINEAR would make float64 of it first.
        rows, triplets = attributes(network, np.float32), draw(network, 1, n_triplets, seed=1)[0]
        written, labels = as_examples(write_out(rows, triplets))
        double = written.astype(np.float64)
        work["writing triplets out"] = n_triplets, lambda: as_examples(write_out(rows, triplets))
        work["writing triplets out, as one would write it"] = (
            n_triplets,
            lambda: as_examples(write_out_plainly(rows, triplets)),
        )
        work["scikit-learn SGD, a pass over triplets written out"] = (
            n_triplets,
            lambda: sgd_classifier(SOLVERS_REG).partial_fit(written, labels, classes=[-1.0, 1.0]),
        )
        work["LIBLINEAR on triplets written out, tolerance 0.1"] = (
            n_triplets,
            lambda: fit_quietly(liblinear(SOLVERS_REG, n_triplets, 0.1), double, labels),
        )
    if missing("implicit") is None:
        for epochs in (1, 1 + BPR_EPOCHS):
            work[f"BPR {epochs}"] = BPR_EPOCHS * network.n_links, bpr(network, epochs)
    skipped = {peer: reason for peer in MODULES if (reason := missing(peer))}
    tell(f"peers: {', '.join(work)}")
    with one_torch_thread():
        seconds = interleaved({name: run for name, (_, run) in work.items()}, repeats)
    micros = {name: seconds[name] / n * 1e6 for name, (n, _) in work.items()}
    if "writing triplets out" in micros:
        for name in [name for name in micros if name.endswith("triplets written out") or "LIBLINEAR" in name]:
            micros[f"{name}, with the writing out"] = micros[name] + micros["writing triplets out"]
            micros[f"{name}, with the writing out as one would write it"] = (
                micros[name] + micros["writing triplets out, as one would write it"]
            )
    if "BPR 1" in micros:  # an epoch without setup
        micros["implicit's BPR, a sample"] = micros.pop(f"BPR {1 + BPR_EPOCHS}") - micros.pop("BPR 1")
    said = metric_learn_says(networks.planted(60, 40, 6)) if missing("metric-learn") is None else None
    return {"triplets": n_triplets, "repeats": repeats, "us": micros, "metric-learn": said, "skipped": skipped}


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Limit PyTorch, if it is installed, to one thread in this context."""
    if missing("PyTorch"):
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
