"""Words of texts: how they are told apart, counted, and left out."""

from __future__ import annotations

import sys
import unicodedata

import numpy as np
import pytest
from scipy import sparse

from fastspml import tokens
from fastspml.tokens import count_words
from tests.text_files import COMMON


def test_words_are_counted_over_one_sorted_vocabulary():
    counts, vocabulary = count_words(["The cat; the CAT, a Dog!", "dog 42 x1", "zebra cat"], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["cat", "dog", "x1", "zebra"]
    assert counts.toarray().tolist() == [[2, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert counts.dtype == np.float32


def test_words_of_any_script_and_accents_written_apart():
    _, vocabulary = count_words(["Ünder_scored cafe\u0301 слово é", "²³ १२ 7"], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["café", "scored", "ünder", "слово"]


def test_document_frequencies_cut_rare_and_common_words():
    documents = ["aa bb cc", "aa bb", "aa bb aa", "aa dd"]
    assert count_words(documents, min_df=2, max_df=0.75)[1].tolist() == ["bb"]
    assert count_words(documents, min_df=1, max_df=0.75)[1].tolist() == ["bb", "cc", "dd"]
    assert count_words(documents, min_df=2, max_df=1.0)[1].tolist() == ["aa", "bb"]


def test_common_rare_and_frequent_words_are_left_out_by_default():
    counts, vocabulary = count_words([*COMMON, "dog"])
    assert vocabulary.tolist() == ["cat", "dog", "ran", "sat"]
    assert counts.sum(axis=0).tolist() == [2, 3, 2, 2]
    with pytest.raises(ValueError, match="none of the"):
        count_words(["dog", "dog", "dog sat", "cat"])


def test_a_stop_word_is_left_out_of_all_vocabularies_unless_wanted():
    assert tokens.Tokenizer().leaves_out("the") is True
    assert tokens.Tokenizer().leaves_out("cat") is False
    assert tokens.Tokenizer(stop_words=False).leaves_out("the") is False


@pytest.mark.parametrize("texts", [[], [""], ["", "the 7"]])
def test_texts_without_known_words_have_no_counts(texts):
    got = tokens.Tokenizer().count(texts, ["cat"])
    assert (got.shape, got.nnz, got.dtype) == ((len(texts), 1), 0, np.float32)
    assert len(got.data) == len(got.indices) == 0


def test_stop_words_are_optional():
    assert count_words(["this and that"], stop_words=False, min_df=1, max_df=1.0)[1].tolist() == ["and", "that", "this"]
    with pytest.raises(ValueError, match=r"none of the 3 words of 1 documents is left.*lower min_df or raise max_df\."):
        count_words(["this and that"], min_df=1, max_df=1.0)


def test_words_are_left_out_of_their_own_documents_only():
    counts, vocabulary = count_words(["aa bb", "aa bb"], leave_out=[{"aa"}, set()], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["aa", "bb"]
    assert counts.toarray().tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("words_per_block", [20, 300])  # 23 blocks and 2
def test_blocks_do_not_change_the_counts(monkeypatch, words_per_block):
    documents = [" ".join(np.random.default_rng(i).choice(["aa", "bb", "cc", "dd"], 9)) for i in range(50)]
    documents += ["", "a new word"]
    expected, names = count_words(documents, min_df=1, max_df=1.0)
    monkeypatch.setattr(tokens, "WORDS_PER_BLOCK", words_per_block)
    got, got_names = count_words(iter(documents), min_df=1, max_df=1.0)
    assert (got.toarray() == expected.toarray()).all()
    assert got_names.tolist() == names.tolist()


def test_an_endless_word_does_not_widen_the_vocabulary():
    _, vocabulary = count_words(["x" * 10_000 + " aa"], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["aa"]


@pytest.mark.parametrize(("n_documents", "expected"), [(4999, []), (10_000, [5000, 10_000])])
def test_counting_reports_progress(n_documents, expected):
    told = []
    count_words(["aa"] * n_documents, max_df=1.0, report=lambda *what: told.append(what))
    assert told == [("counting words", n_done, None) for n_done in expected]


@pytest.mark.parametrize(
    ("cuts", "sentence"),
    [
        ({"min_df": 0}, "min_df must be a number of documents, 1 or more; got 0"),
        ({"min_df": 0.5}, "min_df must be a number of documents, 1 or more; got 0.5"),
        ({"max_df": 0.0}, "max_df must be a share of the documents, above 0 and up to 1; got 0.0"),
        ({"max_df": 1.01}, "max_df must be a share of the documents, above 0 and up to 1; got 1.01"),
        ({"max_df": 30}, "max_df must be a share of the documents, above 0 and up to 1; got 30"),
    ],
)
def test_cuts_out_of_range(cuts, sentence):
    with pytest.raises(ValueError, match=sentence):
        count_words(["aa"], **cuts)


def test_no_documents():
    with pytest.raises(ValueError, match=r"there are no documents to count the words of\."):
        count_words([])


def test_documents_without_words():
    with pytest.raises(ValueError, match="none of the 0 words of 2 documents is left"):
        count_words(["", "a"], min_df=1, max_df=1.0)


def test_a_word_of_64_letters_is_kept_and_one_of_65_is_not():
    _, vocabulary = count_words(["x" * 64 + " " + "y" * 65], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["x" * 64]


def test_accents_of_a_letter_are_kept_in_a_long_run_of_marks():
    assert tokens.words_of("cafe\u0301" + "\u0301" * 100 + " bar") == ["café", "bar"]


def test_every_combining_mark_is_shortened():
    marks = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    marks = [mark for mark in marks if unicodedata.combining(unicodedata.normalize("NFD", mark)[0])]
    assert len(marks) > 800
    assert all(tokens.LONG_RUN.fullmatch(mark * 31) for mark in marks)


def test_texts_must_be_strings():
    with pytest.raises(TypeError, match="a text must be a string, got int"):
        tokens.Tokenizer().words(3)


def test_settings_of_a_tokenizer_make_an_equal_one():
    expected = tokens.Tokenizer(stop_words=False, min_df=3, max_df=0.25)
    settings = expected.settings()
    assert settings == {"version": 1, "stop_words": False, "min_df": 3, "max_df": 0.25}
    assert tokens.Tokenizer.from_settings(settings) == expected


@pytest.mark.parametrize("texts", ["one text", sparse.bsr_array(np.eye(2))], ids=["string", "matrix"])
def test_texts_to_count_are_a_list(texts):
    with pytest.raises(TypeError, match="texts must be a list of strings, got"):
        tokens.Tokenizer().count(texts, ["chess"])
    with pytest.raises(TypeError, match="texts must be a list of strings, got"):
        count_words(texts)


def test_a_frame_of_texts_is_refused_not_counted_by_its_column_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["chess"]})
    sentence = (
        r"texts must be strings, one per text, got a DataFrame; pass its column of texts, such as frame\['text'\]"
    )
    for count in (lambda: tokens.Tokenizer().count(frame, ["chess", "text"]), lambda: count_words(frame)):
        with pytest.raises(TypeError, match=sentence):
            count()
    assert tokens.Tokenizer().count(frame["text"], ["chess", "text"]).toarray().tolist() == [[1.0, 0.0]]


def test_a_vocabulary_to_count_over_is_a_list():
    with pytest.raises(ValueError, match="vocabulary must be a list of words, got"):
        tokens.Tokenizer().count(["chess"], sparse.bsr_array(np.eye(2)))


def test_a_word_in_exactly_the_largest_share_of_texts_is_kept():
    """0.29 * 100 is less than 29."""
    assert count_words(["alpha beta"] * 29 + ["gamma"] * 71, max_df=0.29)[1].tolist() == ["alpha", "beta"]
