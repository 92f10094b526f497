"""Weighting: from plain feature values to tf-idf, l1, l2 or binary ones; fitted on training nodes only."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, overload

import numpy as np
from scipy import sparse

from fastspml.checks import ROUNDING, is_number, is_whole, quoted
from fastspml.network import Network
from fastspml.network_lists import as_networks, check_same_features, described_blocks
from fastspml.sparse.csr import block_bounds, canonical_row_blocks, csr_from_parts, freeze_csr
from fastspml.sparse.mapped import count_columns, is_mapped, row_ranges, rows_between, spill_rows

KINDS = ("tfidf", "none", "binary", "l1", "l2")

# Sums outside these bounds may have overflowed, or lost digits below the smallest normal numbers.
SAFE_SUMS = (1e-280, 1e300)


class Weighting:
    """Weight the features of networks, so that distances and products compare what matters.

    Parameters
    ----------
    kind : {"tfidf", "none", "binary", "l1", "l2"}
        - "tfidf": local(x) * ln((1 + n) / (1 + df)), then rows scaled to Euclidean length 1. n is the number of nodes
          fitted on, and df the number of them that have the feature. local(x) is 1 + ln x if x is at least 1, and x
          itself if it is less, so that it is positive and increasing. Negative values are refused.
        - "binary": 1 for every nonzero.
        - "l1", "l2": rows scaled to length 1 in that norm.
        - "none": values unchanged.

        Weighted values have the data type of the features: float32, as a rule, for integers. Dense blocks of
        networks are weighted apart from the sparse features: "tfidf" and "l2" scale each block of a row to length 1,
        "l1" to l1 length 1, "none" and "binary" leave it unchanged.
    min_df : int
        Minimum document frequency: features that occur in fewer of the fitted nodes are dropped.
    max_df : float
        Maximum document frequency, as a share: features that occur in more of the fitted nodes are dropped.

    Attributes
    ----------
    idf_ : array, shape (n_features,), or None
        Factor of each feature, after fitting: 0 for features left out, and otherwise ln((1 + n) / (1 + df)) for
        "tfidf" and 1 for the other kinds; 1 for dense features. None means 1 throughout.
    n_features_ : int
    dense_blocks_ : tuple of int
        Widths of the dense blocks of the networks fitted on, see `Network`.
    has_fractions_ : bool or None
        Whether tf-idf was fitted on a value below 1; None for the other kinds. In files of earlier versions it is
        None for tf-idf, too: their local weight was 1 + ln x for all values, and stays so.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[3, 0, 1], [0, 2, 0], [1, 1, 0]])
    >>> fs.Weighting("l1").fit_transform(network).features.toarray()
    array([[0.75, 0.  , 0.25],
           [0.  , 1.  , 0.  ],
           [0.5 , 0.5 , 0.  ]], dtype=float32)
    """

    # Defaults of weightings that were pickled before these attributes existed.
    dense_blocks_: tuple[int, ...] = ()
    has_fractions_: bool | None = None

    def __init__(self, kind: str = "tfidf", min_df: int = 1, max_df: float = 1.0) -> None:
        if kind not in KINDS:
            raise ValueError(
                f"kind of weighting must be one of {', '.join(KINDS)}, or auto in a model; got {quoted(kind)}."
            )
        if not is_whole(min_df) or min_df < 0:
            raise ValueError(f"min_df must be a number of nodes, got {quoted(min_df)}.")
        if not is_number(max_df) or not 0.0 < max_df <= 1.0:
            raise ValueError(f"max_df must be a share above 0 and up to 1, got {quoted(max_df)}.")
        self.kind = kind
        self.min_df = int(min_df)
        self.max_df = float(max_df)
        self.idf_: np.ndarray | None = None
        self.n_features_: int | None = None

    def __repr__(self) -> str:
        fitted = "" if self.n_features_ is None else f", fitted on {self.n_features_:,} features"
        if self.dense_blocks_:
            fitted += f", {sum(self.dense_blocks_):,} of them dense"
        cuts = f", min_df={self.min_df}, max_df={self.max_df}" if self.drops_features else ""
        return f"Weighting({self.kind!r}{cuts}{fitted})"

    @property
    def has_unit_blocks(self) -> bool:
        """Whether the sparse features and every dense block of a row have length 1, or 0 where all are zero."""
        return self.kind in ("tfidf", "l2")

    @property
    def drops_features(self) -> bool:
        """Whether features are left out for being rare or frequent."""
        return self.min_df > 1 or self.max_df < 1.0

    def __eq__(self, other: object) -> bool:
        """Return whether both weight the data that they were fitted on alike."""
        if not isinstance(other, Weighting):
            return NotImplemented
        if self is other:
            return True
        return self._key == other._key and np.array_equal(_or_empty(self.idf_), _or_empty(other.idf_))

    @property
    def _key(self) -> tuple[Any, ...]:
        # Without fractions the local weights of earlier versions are the same.
        return self.kind, self.n_features_, self.dense_blocks_, bool(self.has_fractions_)

    __hash__ = None  # type: ignore[assignment]  # equality is by content, and the content is set by fit

    def fit(self, networks: Network | Iterable[Network]) -> Weighting:
        """Learn document frequencies over all nodes of the networks; a node in several tasks counts once."""
        networks = as_networks(networks)
        check_same_features(networks)
        smallest = []
        for network in networks:
            check_unweighted(network)
            if self.kind == "tfidf":
                smallest.append(smallest_value(network.features, network.n_sparse_features))
                check_sign(smallest[-1], repr(network.name))
        self.has_fractions_ = any(value < 1 for value in smallest) if self.kind == "tfidf" else None
        self.idf_ = None
        if self.kind == "tfidf" or self.drops_features:
            n_nodes, df = document_frequencies(networks)
            self.idf_ = np.log((1.0 + n_nodes) / (1.0 + df)) if self.kind == "tfidf" else np.ones(len(df))
            if self.drops_features:
                self.idf_[(df < self.min_df) | (df > self.max_df * n_nodes + ROUNDING)] = 0.0
            self.idf_[networks[0].n_sparse_features :] = 1.0
        self.n_features_, self.dense_blocks_ = networks[0].n_features, networks[0].dense_blocks
        return self

    @overload
    def transform(self, data: Network) -> Network: ...
    @overload
    def transform(self, data: Sequence[Network]) -> list[Network]: ...
    @overload
    def transform(self, data: Any) -> Any: ...
    def transform(self, data: Any) -> Any:
        """Return a Network, a list of them, or plain feature rows weighted; rows come back as CSR.

        Rows are a sparse or dense matrix with the features in the order of `Network.features`, or a list of blocks.
        """
        if self.n_features_ is None:
            raise ValueError(f"this {self.kind!r} weighting has not been fitted; call fit or fit_transform first.")
        if isinstance(data, Network):
            return self._transform_networks([data])[0]
        if isinstance(data, (list, tuple)) and data and isinstance(data[0], Network):
            return self._transform_networks(as_networks(data))
        rows, dense_blocks = canonical_row_blocks(data, "rows")
        self._check_width(rows.shape[1], "rows")
        last = dense_blocks[len(dense_blocks) - len(self.dense_blocks_) :]  # sparse features may be given dense, too
        if dense_blocks and last != self.dense_blocks_:
            self._refuse_blocks(dense_blocks, "rows")
        self._check_sign(rows, self._n_sparse, "rows")
        return self._weighted(rows)

    def fit_transform(self, networks: Any) -> Any:
        """Fit on the networks and return them weighted; a list gives a list, a Network a Network."""
        networks = networks if isinstance(networks, Network) else as_networks(networks)
        return self.fit(networks).transform(networks)

    def _transform_networks(self, networks: list[Network]) -> list[Network]:
        weighted: dict[int, sparse.csr_array] = {}  # tasks that share their features keep sharing them
        fitted = copy.copy(self)  # which another fit of this weighting leaves as it is
        result = []
        for network in networks:
            self._check_width(network.n_features, repr(network.name))
            if network.dense_blocks != self.dense_blocks_:
                self._refuse_blocks(network.dense_blocks, repr(network.name))
            check_unweighted(network)
            self._check_sign(network.features, network.n_sparse_features, repr(network.name))
            key = id(network.features)
            if key not in weighted:
                weighted[key] = self._weighted(network.features)
            result.append(network.replace(features=weighted[key], weighting=fitted))
        return result

    def _check_sign(self, rows: sparse.csr_array, n_sparse: int, what: str) -> None:
        """Refuse rows with negative values of sparse features, for tf-idf."""
        if self.kind == "tfidf":
            check_sign(smallest_value(rows, n_sparse), what)

    def _check_width(self, n_features: int, what: str) -> None:
        if n_features != self.n_features_:
            raise ValueError(f"{what} has {n_features} features, but the weighting was fitted on {self.n_features_}.")

    def _refuse_blocks(self, dense_blocks: Sequence[int], what: str) -> NoReturn:
        raise ValueError(
            f"{what} has {described_blocks(dense_blocks)}, but the weighting was fitted on networks with "
            f"{described_blocks(self.dense_blocks_)}."
        )

    @property
    def _n_sparse(self) -> int:
        """Number of features outside the dense blocks."""
        assert self.n_features_ is not None
        return self.n_features_ - sum(self.dense_blocks_)

    def _weighted(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Return rows weighted; those of a mapped file piece by piece, into another file."""
        if self.kind == "none" and self.idf_ is None:
            return rows
        if is_mapped(rows):
            pieces = (self._weighted_in_memory(rows_between(rows, *piece)) for piece in row_ranges(rows.indptr))
            return spill_rows(rows, pieces, rows.shape[0], rows.nnz)
        return self._weighted_in_memory(rows)

    def _weighted_in_memory(self, rows: sparse.csr_array) -> sparse.csr_array:
        values = self._local_weights(rows)
        if self.idf_ is not None:
            values = values * self.idf_[rows.indices].astype(values.dtype)
        if self.kind in ("tfidf", "l1", "l2"):
            power = 1 if self.kind == "l1" else 2
            values = np.asarray(_scale_blocks(values, rows, self._block_starts, power), dtype=rows.dtype)
        return freeze_csr(csr_from_parts(values, rows.indices, rows.indptr, rows.shape))

    def _local_weights(self, rows: sparse.csr_array) -> np.ndarray:
        """Return the values before idf and scaling; those of dense blocks are unchanged."""
        is_sparse: Any = rows.indices < self._n_sparse if self.dense_blocks_ else slice(None)
        if self.kind == "binary":
            values = rows.data.copy() if self.dense_blocks_ else np.empty(rows.nnz, dtype=np.float32)
            values[is_sparse] = 1.0
            return values
        if self.kind == "none":
            return rows.data
        values = rows.data.astype(np.float64)
        if self.kind == "tfidf":
            plain = values[is_sparse]
            logs = 1.0 + np.log(plain)
            values[is_sparse] = logs if self.has_fractions_ is None else np.where(plain < 1.0, plain, logs)
        return values

    @property
    def _block_starts(self) -> np.ndarray:
        """The first column of the sparse features, and of every dense block."""
        assert self.n_features_ is not None
        return np.append(0, block_bounds(self.n_features_, self.dense_blocks_)[:-1])


def document_frequencies(networks: Sequence[Network]) -> tuple[int, np.ndarray]:
    """Return the number of distinct nodes of the networks, and how many of them have each feature."""
    n_nodes, df = 0, np.zeros(networks[0].n_features, dtype=np.int64)
    seen: set[Any] = set()
    for network in networks:
        n_new = network.n_nodes
        if network.has_node_names:
            names = network.nodes.tolist()
            is_new = np.fromiter((name not in seen for name in names), bool, network.n_nodes)
            seen.update(names)
            n_new = int(is_new.sum())
        df += count_columns(network.features, None if n_new == network.n_nodes else is_new)
        n_nodes += n_new
    return n_nodes, df


def suitable_weightings(networks: Network | Iterable[Network]) -> list[str | None]:
    """Return the weightings that suit the features of networks, the likeliest first.

    Counts and binary features: "tfidf", then "l2". Fractions (a value below 1): "l2", then "tfidf". Negative values:
    "l2", then "none". Networks that are weighted already stay so: None.

    Examples
    --------
    >>> import fastspml as fs
    >>> from fastspml.weighting import suitable_weightings
    >>> suitable_weightings(fs.Network([[1.0, -0.5], [0.2, 0.0]]))
    ['l2', 'none']
    """
    networks = as_networks(networks)
    if any(network.weighting is not None for network in networks):
        return [None]
    smallest = min(smallest_value(network.features, network.n_sparse_features) for network in networks)
    if smallest < 0:
        return ["l2", "none"]
    return ["l2", "tfidf"] if smallest < 1 else ["tfidf", "l2"]


def as_weighting(weighting: str | Weighting) -> Weighting:
    """Return a new, unfitted weighting of the kind named, or like the one given."""
    if isinstance(weighting, Weighting):
        return Weighting(weighting.kind, weighting.min_df, weighting.max_df)
    if not isinstance(weighting, str):
        raise TypeError(f"weighting must be None, a kind of weighting or a Weighting; got {quoted(weighting)}.")
    return Weighting(weighting)


def check_unweighted(network: Network) -> None:
    """Refuse a network that is weighted already."""
    if network.weighting is not None:
        raise ValueError(
            f"{quoted(network.name)} has been weighted already ({network.weighting.kind}); weight plain counts, once."
        )


def check_sign(smallest: float, what: str) -> None:
    """Refuse features whose smallest value is negative, for tf-idf."""
    if smallest < 0:
        raise ValueError(
            f"{what} has negative features ({smallest}), which tf-idf cannot weight; "
            "use 'l2', 'l1', 'binary' or 'none'."
        )


def smallest_value(rows: sparse.csr_array, n_columns: int) -> float:
    """Return the smallest stored value of the first columns, or 1 if none is below 1.

    In pieces: the mask of these columns takes memory, and rows may be mapped.
    """
    if n_columns == rows.shape[1]:
        return float(rows.data.min(initial=1.0))
    pieces = (rows_between(rows, *piece) for piece in row_ranges(rows.indptr))
    return min(float(piece.data.min(initial=1.0, where=piece.indices < n_columns)) for piece in pieces)


def _scale_blocks(values: np.ndarray, rows: sparse.csr_array, starts: np.ndarray, power: int) -> np.ndarray:
    """Divide the values of each block of a row by their length in the given norm; blocks of zeros stay.

    Blocks are the columns from each of the starts, ascending from 0, to the next.
    """
    counts = np.diff(rows.indptr)
    groups = np.repeat(np.arange(len(counts)), counts)  # the values of a group are divided by one length
    if len(starts) > 1:
        groups = groups * len(starts) + np.searchsorted(starts, rows.indices, side="right") - 1
    n_groups = len(counts) * len(starts)
    with np.errstate(over="ignore", under="ignore"):
        sums = np.bincount(groups, np.abs(values) ** power, minlength=n_groups)
    is_unsafe = (sums <= SAFE_SUMS[0]) | (sums >= SAFE_SUMS[1])
    is_unsafe &= np.bincount(groups, minlength=n_groups) > 0
    if is_unsafe.any():  # divide these by their largest value first; all others keep their bits
        largest = np.zeros(n_groups)
        np.maximum.at(largest, groups, np.abs(values))
        largest[~is_unsafe | (largest == 0.0)] = 1.0
        values = values / largest[groups]
        sums = np.bincount(groups, np.abs(values) ** power, minlength=n_groups)
    lengths = sums ** (1.0 / power)
    lengths[lengths == 0.0] = 1.0
    return values / lengths[groups]


def _or_empty(array: np.ndarray | None) -> np.ndarray:
    return np.zeros(0) if array is None else array
