"""The completion script in a real shell."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from fastspml.cli import COMMANDS, main

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash on this machine")


def completed(capsys, *words):
    """Return what bash offers for the last of the words."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    quoted = " ".join(f"'{word}'" for word in ("fastspml", *words))
    test = f'{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _fastspml; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", test], capture_output=True, text=True, check=True).stdout.split()


@needs_bash
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pre"], ["predict"]),
        ([""], [*COMMANDS, "--help", "--version"]),
        (["serve", "--ho"], ["--host"]),
        (["serve", "model.h5", "--po"], ["--port"]),
        (["import", "te"], ["text"]),
        (["import", "text", "a.csv", "--id"], ["--id-column"]),
        (["train", "--n-it"], ["--n-iters"]),
        (["predict", "ru"], []),  # the shell completes file names
        (["fly", "--x"], []),
    ],
)
def test_bash_completes(capsys, words, expected):
    assert completed(capsys, *words) == expected


def test_zsh_gets_the_same_script(capsys):
    assert main(["completion", "bash"]) == 0
    bash = capsys.readouterr().out
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out == f"autoload -U +X bashcompinit && bashcompinit\n{bash}"
