"""Indices as HDF5 files, which can be mapped so that several processes share them.

metric        see `io.metric_files`
X             weighted features of the nodes, CSR
by_feature    the transpose of X, CSR: the inverted index; left out under a full metric
links         known links; left out unless the metric uses them
obs           names of the nodes; left out if they have none
"""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse

from fastspml.io.elements import INDEX, check_format, read_if_there, read_names, write_format, write_names
from fastspml.io.matrices import read_features, read_links, write_csr
from fastspml.io.metric_files import read_metric, write_metric
from fastspml.io.reading import reading
from fastspml.io.writing import writing
from fastspml.metric import Metric
from fastspml.ranking.indexed_rows import IndexedRows, NodesUnderMetric
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.node_lists import NodeNames
from fastspml.ranking.scores import NodeScores
from fastspml.sparse.csr import freeze_csr
from fastspml.sparse.mapped import row_ranges, rows_between


def write_index(
    path: str | os.PathLike[str], metric: Metric, scores: NodeScores, names: NodeNames, overwrite: bool
) -> None:
    """Write an index to a file, which appears complete or not at all."""
    with writing(path, overwrite) as file:
        write_format(file, INDEX)
        write_metric(file, file.root, "metric", metric)
        write_csr(file, file.root, "X", freeze_csr(scores.rows))
        if not metric.is_full:
            write_csr(file, file.root, "by_feature", freeze_csr(scores.nodes.indexed.by_feature))
        if scores.known is not None:
            write_csr(file, file.root, "links", scores.known.links)
        if names.are_names:
            write_names(file, file.root, "obs", names.names)


def read_index(path: str | os.PathLike[str], mapped: bool, verify: bool | None) -> tuple[Metric, NodeScores, NodeNames]:
    """Read an index of `write_index`; a file whose parts do not fit together is refused."""
    with reading(path, mapped) as file:
        check_format(file, INDEX)
        if verify or (verify is None and not mapped):
            file.verify()
        metric = read_metric(file, file.root, "metric")
        rows = read_features(file, file.root, "X")
        if rows.shape[1] != metric.n_features:
            file.refuse(
                f"X of {file.name} has {rows.shape[1]} features, its metric {metric.n_features}; it is damaged."
            )
        by_feature = None
        if not metric.is_full:
            by_feature = read_features(file, file.root, "by_feature")
            if not _is_transpose(rows, by_feature):
                file.refuse(f"by_feature of {file.name} is not the transpose of X; the file is damaged.")
        names = read_if_there(file, file.root, "obs", read_names)
        if names is not None and len(names) != rows.shape[0]:
            file.refuse(f"obs of {file.name} names {len(names)} of {rows.shape[0]} nodes; one name each is needed.")
        known = None
        if metric.uses_links:
            links = read_links(file, file.root, "links")
            if links.shape[0] != rows.shape[0]:
                file.refuse(f"links of {file.name} are among {links.shape[0]} of {rows.shape[0]} nodes; it is damaged.")
            known = KnownLinks(links)
        labels = np.arange(rows.shape[0]) if names is None else names
        nodes = NodesUnderMetric(IndexedRows(rows, by_feature), metric)
        return metric, NodeScores(nodes, known), NodeNames(labels, names is not None)


def _is_transpose(rows: sparse.csr_array, by_feature: sparse.csr_array) -> bool:
    """Return whether two canonical matrices are transposes: by their shapes, and by hashes of all entries.

    In pieces, because the matrices may be mapped. Transposing one of them would take as much memory as it has entries.
    """
    if by_feature.shape != rows.shape[::-1] or by_feature.dtype != rows.dtype or by_feature.nnz != rows.nnz:
        return False
    return _hash_entries(rows, False) == _hash_entries(by_feature, True)


def _hash_entries(matrix: sparse.csr_array, is_transposed: bool) -> int:
    """Return the sum of a hash of (node, feature, value) over all entries, modulo 2^64."""
    total = np.uint64(0)
    for first, last in row_ranges(matrix.indptr):
        piece = rows_between(matrix, first, last)
        majors = np.repeat(np.arange(first, last, dtype=np.uint64), np.diff(piece.indptr))
        nodes, features = (piece.indices, majors) if is_transposed else (majors, piece.indices)
        values = piece.data.view(f"u{piece.data.dtype.itemsize}").astype(np.uint64)
        mixed = nodes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + features.astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + values
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
        total = np.add(total, np.bitwise_xor(mixed, mixed >> np.uint64(31)).sum(dtype=np.uint64), dtype=np.uint64)
    return int(total)
