"""Elements that files of networks and models share: format, lists, names, dense blocks, weightings and tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fastspml import __version__
from fastspml.io.reading import Reader
from fastspml.io.writing import Writer, set_text
from fastspml.json_values import load_json
from fastspml.labels import check_labels
from fastspml.sparse.csr import block_bounds, freeze, widths_of_bounds
from fastspml.tokens import Tokenizer
from fastspml.weighting import Weighting

FORMAT_VERSION = 1
NETWORKS, MODEL, INDEX = "fastspml-networks", "fastspml-model", "fastspml-index"
READ_WITH = {
    NETWORKS: "networks; read them with fs.read_networks",
    MODEL: "a model; read it with fs.load_model",
    INDEX: "an index; read it with fs.LinkIndex.load",
}

T = TypeVar("T")


def is_anndata(file: Reader) -> bool:
    """Return whether a file is an .h5ad file."""
    return not file.is_ours and file.attribute(file.root, "encoding-type") == "anndata"


def write_format(file: Writer, form: str) -> None:
    """Write the format of a file, its version, and the version of fastspml."""
    set_text(file.root, "format", form)
    file.root.attrs["format_version"] = FORMAT_VERSION
    set_text(file.root, "fastspml_version", __version__)


def check_format(file: Reader, expected: str) -> None:
    """Refuse a file that holds something else, or has a newer format."""
    found, version = file.attribute(file.root, "format"), file.attribute(file.root, "format_version")
    if is_anndata(file):
        found, version = NETWORKS, FORMAT_VERSION
    if found not in READ_WITH or not isinstance(version, int):
        file.refuse(f"{file.name} is an HDF5 file, but neither fastspml's nor AnnData's, or it is damaged.")
    if version > FORMAT_VERSION:
        file.refuse(
            f"{file.name} has format version {version}, this fastspml reads up to {FORMAT_VERSION}; upgrade fastspml."
        )
    if found != expected:
        file.refuse(f"{file.name} holds {READ_WITH[found]}.")


def numbered(size: int) -> list[str]:
    """Return the numbers from 0 to size - 1 as names in alphabetical order."""
    width = max(3, len(str(size - 1)))
    return [f"{position:0{width}d}" for position in range(size)]


def write_list(
    file: Writer, parent: Any, name: str, values: Sequence[T], write: Callable[[Writer, Any, str, T], None]
) -> None:
    """Write values as members of a group, numbered from 000."""
    group = file.group(parent, name)
    for position, number in enumerate(numbered(len(values))):
        write(file, group, number, values[position])


def read_list(file: Reader, parent: Any, name: str, read: Callable[[Reader, Any, str], T]) -> list[T]:
    """Read what `write_list` wrote."""
    group = file.group(parent, name)
    numbers = sorted(group)
    if numbers != numbered(len(numbers)):
        file.refuse(f"{name} of {file.name} are not numbered consecutively; the file is damaged.")
    return [read(file, group, number) for number in numbers]


def read_if_there(file: Reader, parent: Any, path: str, read: Callable[[Reader, Any, str], T]) -> T | None:
    """Read an optional member; None if there is none."""
    return None if file.find(parent, path) is None else file.once(parent, path, read)


def write_positions(file: Writer, parent: Any, name: str, positions: Any) -> None:
    """Write positions of nodes or features."""
    file.array(parent, name, np.asarray(positions, dtype=np.int64))


def read_positions(file: Reader, parent: Any, name: str) -> np.ndarray:
    """Read integers as int64."""
    return file.array(parent, name, kinds="iu", dtype=np.int64)


def read_floats(file: Reader, parent: Any, name: str, ndim: int = 1) -> np.ndarray:
    """Read floats as float64."""
    return file.array(parent, name, ndim, kinds="f", dtype=np.float64)


def write_names(file: Writer, parent: Any, name: str, names: np.ndarray) -> None:
    """Write names as the index of one of AnnData's data frames, which holds strings; integers are a column as well."""
    frame = file.group(parent, name, "dataframe")
    is_numbers = names.dtype.kind in "iu"
    file.texts(frame, "_index", names.astype(str) if is_numbers else names)
    if is_numbers:
        file.array(frame, "number", names)
    frame.attrs["_index"] = "_index"
    frame.attrs["column-order"] = ["number"] if is_numbers else []
    set_text(frame, "names", "number" if is_numbers else "_index")


def read_names(file: Reader, parent: Any, name: str) -> np.ndarray:
    """Read names from the column that an attribute of ours or of AnnData names."""
    frame = file.group(parent, name)
    column = file.attribute(frame, "names") or file.attribute(frame, "_index")
    if not isinstance(column, str):
        file.refuse(f"{name} of {file.name} does not say which of its columns holds the names; it is damaged.")
    names = _read_index(file, frame, column)
    what, noun = ("nodes", "node") if name == "obs" else ("vocabulary", "feature")
    with file.checking(name):
        return freeze(check_labels(names, len(names), what, noun))


def _read_index(file: Reader, frame: Any, column: str) -> np.ndarray:
    """Read names in one of AnnData's encodings: plain, categorical, or with a mask of missing ones."""
    index = file.get(frame, column)
    encoding = "plain" if file.is_ours else file.attribute(index, "encoding-type")
    if encoding == "categorical":
        names, codes = file.labels(index, "categories"), read_positions(file, index, "codes")
        is_missing = (codes < 0) | (codes >= len(names))
        names = names[np.where(is_missing, 0, codes)] if len(names) else np.zeros(len(codes), dtype=str)
    elif encoding == "nullable-string-array":
        names, is_missing = file.labels(index, "values"), file.array(index, "mask", kinds="b")
    else:
        return file.labels(frame, column)
    if is_missing.any():
        file.refuse(f"{int(is_missing.sum())} names of {file.name} are missing; give every node and feature one.")
    return names


def write_dense_blocks(file: Writer, parent: Any, dense_blocks: Sequence[int], n_features: int) -> None:
    """Write the bounds of dense blocks, if there are any."""
    if dense_blocks:
        file.array(parent, "dense_blocks", block_bounds(n_features, dense_blocks))


def read_dense_blocks(file: Reader, parent: Any, path: str, n_features: int) -> tuple[int, ...]:
    """Read the widths of dense blocks; () if the file has none."""
    if file.find(parent, path) is None:
        return ()
    with file.checking(path):
        return widths_of_bounds(file.array(parent, path, kinds="iu"), n_features)


def write_weighting(file: Writer, parent: Any, name: str, weighting: Weighting) -> None:
    """Write a weighting, fitted or not."""
    group = file.group(parent, name)
    file.text(group, "kind", weighting.kind)
    file.array(group, "min_df", weighting.min_df)
    file.array(group, "max_df", weighting.max_df)
    if weighting.n_features_ is not None:
        file.array(group, "n_features", weighting.n_features_)
        write_dense_blocks(file, group, weighting.dense_blocks_, weighting.n_features_)
    if weighting.has_fractions_ is not None:
        file.array(group, "has_fractions", int(weighting.has_fractions_))
    if weighting.idf_ is not None:
        file.shared(group, "idf", weighting.idf_, Writer.array)  # copies of a weighting share it


def read_weighting(file: Reader, parent: Any, name: str) -> Weighting:
    """Read what `write_weighting` wrote."""
    group = file.group(parent, name)
    with file.checking(name):
        weighting = Weighting(
            file.text(group, "kind"), file.number(group, "min_df"), file.number(group, "max_df", kinds="f")
        )
    if file.find(group, "n_features") is not None:
        weighting.n_features_ = file.number(group, "n_features")
        weighting.dense_blocks_ = read_dense_blocks(file, group, "dense_blocks", weighting.n_features_)
    if file.find(group, "has_fractions") is not None:  # else 1 + ln x weights all values
        weighting.has_fractions_ = bool(file.number(group, "has_fractions"))
    weighting.idf_ = file.once(group, "idf", read_floats) if file.find(group, "idf") is not None else None
    is_weighted = weighting.kind == "tfidf" or weighting.drops_features
    n_weights = None if weighting.idf_ is None else len(weighting.idf_)
    if n_weights != (weighting.n_features_ if is_weighted else None):
        file.refuse(
            f"{name} of {file.name} has {n_weights} weights for {weighting.n_features_} features; the file is damaged."
        )
    if weighting.idf_ is not None and not (np.isfinite(weighting.idf_) & (weighting.idf_ >= 0)).all():
        file.refuse(f"{name} of {file.name} has weights that are negative or not finite; the file is damaged.")
    return weighting


def write_tokenizer(file: Writer, parent: Any, name: str, tokenizer: Tokenizer) -> None:
    """Write the settings of a tokenizer, as JSON."""
    file.text(parent, name, json.dumps(tokenizer.settings()))


def read_tokenizer(file: Reader, parent: Any, name: str) -> Tokenizer:
    """Read what `write_tokenizer` wrote."""
    with file.checking(name):
        try:
            settings = load_json(file.text(parent, name))
        except RecursionError:
            raise ValueError("it is nested too deeply.") from None
        return Tokenizer.from_settings(settings)
