"""Tokenizers in files of networks and models: stored, optional, and refused with a sentence where they are hostile."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

import fastspml as fs
from tests.hdf5_files import sign

TOKENIZER = fs.Tokenizer(stop_words=False, min_df=3, max_df=0.25)


def make_networks(tokenizer=TOKENIZER):
    nets = fs.synthetic_networks(n_tasks=2, n_nodes=30, n_features=20, words_per_node=5, links_per_node=3)
    return [net.replace(tokenizer=tokenizer) for net in nets]


@pytest.mark.parametrize("compress", [False, True])
def test_networks_keep_their_tokenizer(tmp_path, compress):
    fs.write_networks(tmp_path / "nets.h5", make_networks(), compress=compress)
    first, second = fs.read_networks(tmp_path / "nets.h5")
    assert first.tokenizer == second.tokenizer == TOKENIZER


def test_files_without_a_tokenizer_open(tmp_path):
    fs.write_networks(tmp_path / "nets.h5", make_networks(None))
    assert fs.read_networks(tmp_path / "nets.h5")[0].tokenizer is None
    fs.save_model(tmp_path / "model.h5", fs.SPML(n_iters=10).fit(make_networks(None)[0]))
    assert fs.load_model(tmp_path / "model.h5").tokenizer_ is None


@pytest.mark.parametrize("kind", [fs.SPML, fs.MTSPML])
def test_a_model_keeps_the_tokenizer_of_its_networks(tmp_path, kind):
    nets = make_networks()
    model = kind(n_iters=10).fit([nets[0].replace(tokenizer=None), nets[1]])
    assert model.tokenizer_ == TOKENIZER
    fs.save_model(tmp_path / "model.h5", model)
    loaded = fs.load_model(tmp_path / "model.h5")
    assert loaded.tokenizer_ == TOKENIZER
    loaded.partial_fit([net.replace(tokenizer=None) for net in nets], n_iters=5)
    assert loaded.tokenizer_ == TOKENIZER


def test_a_model_that_continues_on_texts_learns_their_tokenizer():
    model = fs.SPML(n_iters=10).fit(make_networks(None)[0])
    assert model.partial_fit(make_networks()[0], n_iters=5).tokenizer_ == TOKENIZER


GOOD = TOKENIZER.settings()
HOSTILE = {
    "not JSON": "{",
    "nested": "[" * 100_000,
    "a list": "[1]",
    "another field": json.dumps(GOOD | {"code": "import os"}),
    "a field missing": json.dumps({"version": 1}),
    "a later version": json.dumps(GOOD | {"version": 2}),
    "no bool": json.dumps(GOOD | {"stop_words": "no"}),
    "no number": json.dumps(GOOD | {"min_df": [1]}),
    "nan": json.dumps(GOOD | {"max_df": float("nan")}),
    "escapes": json.dumps(GOOD | {"max_df": "\x1b[31m"}),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", ["nets.h5", "model.h5"])
def test_a_hostile_tokenizer_is_refused(tmp_path, name, text):
    path = tmp_path / name
    if name == "nets.h5":
        fs.write_networks(path, make_networks())
        place, read = "networks/000/uns/tokenizer", fs.read_networks
    else:
        fs.save_model(path, fs.SPML(n_iters=10).fit(make_networks()[0]))
        place, read = "learner/tokenizer", fs.load_model
    values = np.array(text.encode(), dtype=h5py.string_dtype("utf-8", len(text)))
    with h5py.File(path, "r+") as file:
        attributes = dict(file[place].attrs)
        del file[place]
        file.create_dataset(place, data=values)
        file[place].attrs.update(attributes)
        sign(file, place, values)
    with pytest.raises(ValueError, match=f"tokenizer of {name} cannot be used: ") as caught:
        read(path)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_tokenizer_knows_its_stop_words():
    assert fs.Tokenizer().leaves_out("and")
    assert not fs.Tokenizer().leaves_out("graph")
    assert not fs.Tokenizer(stop_words=False).leaves_out("and")
