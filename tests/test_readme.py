"""The README's Python example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import fastspml as fs

README = Path(__file__).parent.parent / "README.md"


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tasks = fs.datasets.debian()
    first = tasks[0]
    fs.write_networks("areas.h5", [first.replace(name="physics"), tasks[1]])
    vectors = (first.features @ np.random.default_rng(0).normal(size=(first.n_features, 8))).astype(np.float32)
    names = {
        "counts": first.features,
        "links": first.adjacency,
        "words": first.vocabulary,
        "new_counts": first.features[:3],
        "vectors": vectors,
        "new_vectors": vectors[:3],
        "x": first.features[[0]],
        "y": first.features[[1]],
    }
    exec(re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1], names)
    assert names["nodes"].shape == (3, 10)
    assert "contribution" in names["mt"].metric("physics").explain(names["x"], names["y"]).dtype.names
    assert capsys.readouterr().out


def test_the_first_two_shell_blocks_are_the_two_commands():
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks == ["pip install . && fastspml demo\n", "pip install '.[test]' && pytest\n"]
