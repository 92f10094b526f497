"""Words of texts, found and counted: the tokenizer."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import filterfalse
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import ROUNDING, is_number, is_whole, quoted, unmasked
from fastspml.labels import is_frame

# Letters and digits of any script, at least two of them.
WORD = re.compile(r"[^\W_]{2,}")

# Normalisation takes quadratic time in the length of a run of combining marks. Unicode's stream-safe text format
# allows 30 of them, more than any script uses; this pattern matches every mark, and punctuation, which holds no words.
LONG_RUN = re.compile(r"([^\w\s]{30})[^\w\s]+")

# Common English words, which do not tell what a text is about; single letters are never words.
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        about above after again against all also although always among an and any are as at be because been before
        being below between both but by can cannot could did do does doing don done down due during each either etc
        even every few for from further get gets given had has have having he her here hers him his how however if in
        instead into is it its itself just least less let like ll made make makes many may me might more most much
        must my near need needs neither no nor not now of off often on once one only onto or other others otherwise
        our out over own per quite rather re same see several shall she should since so some such than that the their
        them then there these they this those through thus to together too toward under until up upon us use used
        using various ve very via was we well were what when where whether which while who whole whose why will with
        within without would yet you your
        """,
    )
)

# Longer ones are keys or hashes, not words; one of them would make the whole vocabulary array wide.
LONGEST_WORD = 64

# The words of longer texts are found one at a time, which is slower, so that they are never held together.
LONG_TEXT = 2**20

# Words gathered before equal ones of a document are added up; bounds the memory that long documents need.
WORDS_PER_BLOCK = 2**22

DOCUMENTS_PER_REPORT = 5000

SETTINGS_VERSION = 1  # of the rules in `words_of`: they decide which words a new text has


@dataclass(frozen=True)
class Tokenizer:
    """Store how the words of texts were counted, to count those of new texts in the same way.

    `Network.tokenizer` is one if the features of the network are words of texts.

    Parameters
    ----------
    stop_words : bool, default True
        Whether common English words were left out.
    min_df : int, default 2
        Minimum document frequency: words that occur in fewer documents were dropped.
    max_df : float, default 0.5
        Maximum document frequency, as a share: words that occur in more documents were dropped.

    Examples
    --------
    >>> import numpy as np
    >>> import fastspml as fs
    >>> tokenizer = fs.Tokenizer()
    >>> tokenizer.words("Sparse matrices, and sparse graphs")
    ['sparse', 'matrices', 'and', 'sparse', 'graphs']
    >>> tokenizer.count(["Sparse, sparse graphs"], np.array(["graphs", "sparse"])).toarray()
    array([[1., 2.]], dtype=float32)
    >>> fs.Tokenizer.from_settings(tokenizer.settings()) == tokenizer
    True
    """

    stop_words: bool = True
    min_df: int = 2
    max_df: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.stop_words, bool):
            raise ValueError(f"stop_words must be True or False, got {quoted(self.stop_words)}.")
        check_cuts(self.min_df, self.max_df)

    def words(self, text: str) -> list[str]:
        """Return the words of a text in lower case, in order, stop words included."""
        return words_of(text)

    def leaves_out(self, word: str) -> bool:
        """Return whether a word, in lower case, is in no vocabulary because it is a stop word."""
        return self.stop_words and word in STOP_WORDS

    def count(self, texts: Iterable[str], vocabulary: Sequence[str] | np.ndarray) -> sparse.csr_array:
        """Count the words of texts over a known vocabulary; other words are left out.

        Returns
        -------
        csr_array of float32, shape (n_texts, len(vocabulary))
        """
        known = np.asarray(unmasked(vocabulary, "vocabulary"))
        if known.ndim != 1:
            raise ValueError(f"vocabulary must be a list of words, got {quoted(vocabulary)}.")
        check_texts(texts)
        position = {word: f for f, word in enumerate(known.tolist())}
        words, lengths = array("i"), array("q")
        for text in texts:
            n_before = len(words)
            words.extend(position[word] for word in each_word(text) if word in position)
            lengths.append(len(words) - n_before)
        return _add_up(words, lengths, len(position))

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values, to be stored with a model."""
        return {"version": SETTINGS_VERSION} | asdict(self)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Tokenizer:
        """Return a tokenizer from what `settings` has returned; refuse anything else."""
        expected = {"version", "stop_words", "min_df", "max_df"}
        if not isinstance(settings, Mapping) or set(settings) != expected:
            raise ValueError(f"settings of a tokenizer must be {', '.join(sorted(expected))}; got {quoted(settings)}.")
        if settings["version"] != SETTINGS_VERSION:
            raise ValueError(
                f"settings of a tokenizer have version {settings['version']!r:.20}, this fastspml knows version "
                f"{SETTINGS_VERSION} only; use a newer one."
            )
        return cls(settings["stop_words"], settings["min_df"], settings["max_df"])


def check_texts(texts: Any) -> None:
    """Refuse what holds no texts although it can be iterated over: one string, a matrix or a data frame."""
    if is_frame(texts):
        raise TypeError(
            f"texts must be strings, one per text, got a {type(texts).__name__}; pass its column of texts, such as "
            "frame['text']."
        )
    if isinstance(texts, str) or sparse.issparse(texts):
        raise TypeError(f"texts must be a list of strings, got {quoted(texts)}.")


def words_of(text: str) -> list[str]:
    """Return the words of a text: two or more letters and digits, in lower case."""
    return WORD.findall(_normalized(text))


def each_word(text: str) -> Iterable[str]:
    """Return what `words_of` returns, but the words of a long text one at a time."""
    if isinstance(text, str) and len(text) > LONG_TEXT:
        return (match[0] for match in WORD.finditer(_normalized(text)))
    return words_of(text)


def _normalized(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a text must be a string, got {type(text).__name__}.")
    if not text.isascii():
        text = unicodedata.normalize("NFC", LONG_RUN.sub(r"\1", text))  # an accent is part of its letter
    return text.lower()


def count_words(
    documents: Iterable[str],
    leave_out: Iterable[Container[str]] | None = None,
    stop_words: bool = True,
    min_df: int = 2,
    max_df: float = 0.5,
    report: Callable[[str, int, int | None], None] | None = None,
) -> tuple[sparse.csr_array, np.ndarray]:
    """Count the words of documents over one vocabulary.

    A word is two or more letters and digits, in lower case; numbers are left out, and words of more than 64 letters.
    Count the documents of several tasks together: then document frequencies and the vocabulary are common to all.

    Parameters
    ----------
    documents : iterable of str
        Read once, one at a time.
    leave_out : iterable of collections of str, optional
        For each document, words in lower case that are not counted in it.
    stop_words : bool
        Whether common English words are left out.
    min_df : int
        Minimum document frequency: words that occur in fewer documents are dropped.
    max_df : float
        Maximum document frequency, as a share: words that occur in more documents are dropped.
    report : callable, optional
        Called with ("counting words", n_done, None) every 5,000 documents.

    Returns
    -------
    counts : float32 CSR array, shape (n_documents, n_words)
    vocabulary : str array, shape (n_words,)
        The words, sorted.
    """
    check_cuts(min_df, max_df)
    check_texts(documents)
    column: defaultdict[str, int] = defaultdict()
    column.default_factory = column.__len__  # a new word gets the next free column
    blocks, lengths = [], array("q")
    words = array("i")
    banned = iter(leave_out) if leave_out is not None else None
    for n_done, document in enumerate(documents, start=1):
        found, n_before = each_word(document), len(words)
        if banned is not None:
            found = filterfalse(next(banned).__contains__, found)
        words.extend(map(column.__getitem__, found))
        lengths.append(len(words) - n_before)
        if len(words) >= WORDS_PER_BLOCK:
            blocks.append(_add_up(words, lengths, len(column)))
            words, lengths = array("i"), array("q")
        if report is not None and n_done % DOCUMENTS_PER_REPORT == 0:
            report("counting words", n_done, None)
    blocks.append(_add_up(words, lengths, len(column)))
    for block in blocks:
        block.resize(block.shape[0], len(column))
    counts = blocks[0] if len(blocks) == 1 else sparse.vstack(blocks, format="csr")
    if counts.shape[0] == 0:
        raise ValueError("there are no documents to count the words of.")
    return _cut(counts, list(column), stop_words, min_df, max_df)


def check_cuts(min_df: int, max_df: float) -> None:
    """Refuse document-frequency cuts that are out of range."""
    if not is_whole(min_df) or min_df < 1:
        raise ValueError(f"min_df must be a number of documents, 1 or more; got {quoted(min_df)}.")
    if not is_number(max_df) or not 0 < max_df <= 1:
        raise ValueError(f"max_df must be a share of the documents, above 0 and up to 1; got {quoted(max_df)}.")


def _add_up(words: array, lengths: array, n_columns: int) -> sparse.csr_array:
    """Return the counts of a block of documents: a row each, equal words added up."""
    indices = np.array(words, dtype=np.int32)
    indptr = np.cumsum(np.concatenate([[0], np.array(lengths, dtype=np.int64)])).astype(np.int32)
    block = sparse.csr_array(
        (np.ones(len(indices), dtype=np.float32), indices, indptr), shape=(len(lengths), n_columns)
    )
    block.sum_duplicates()
    return block


def _cut(
    counts: sparse.csr_array, words: Sequence[str], stop_words: bool, min_df: int, max_df: float
) -> tuple[sparse.csr_array, np.ndarray]:
    """Keep the columns of words that are neither too rare nor too common, sorted by word."""
    frequencies = np.bincount(counts.indices, minlength=len(words))
    is_kept = (frequencies >= min_df) & (frequencies <= max_df * counts.shape[0] + ROUNDING)
    candidates = [(words[column], column) for column in np.flatnonzero(is_kept).tolist()]
    kept = sorted(
        (word, column)
        for word, column in candidates
        if not word.isnumeric() and len(word) <= LONGEST_WORD and not (stop_words and word in STOP_WORDS)
    )
    if not kept:
        raise ValueError(
            f"none of the {len(words)} words of {counts.shape[0]} documents is left: each is in fewer than {min_df} "
            f"(min_df) or more than {max_df:.0%} (max_df) of the documents, or is a number or a stop word; "
            "lower min_df or raise max_df."
        )
    vocabulary = np.array([word for word, _ in kept])
    return counts[:, np.array([column for _, column in kept])], vocabulary
