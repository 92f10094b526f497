"""The completion script in a real shell."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from fastspml.cli import COMMANDS, main

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash on this machine")


def script(capsys, shell):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(capsys, *words, before=""):
    """Return what bash offers for the last of the words."""
    quoted = " ".join(f"'{word}'" for word in ("fastspml", *words))
    call = f'COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _fastspml; printf "%s\\n" "${{COMPREPLY[@]}}"'
    test = f"{before}\n{script(capsys, 'bash')}\n{call}"
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
        (["import", "text", *"abcdefgh", "--id"], ["--id-column"]),
        (["train", "--n-it"], ["--n-iters"]),
        (["predict", "ru"], []),  # the shell completes file names
        (["fly", "--x"], []),
    ],
)
def test_bash_completes(capsys, words, expected):
    assert completed(capsys, *words) == expected


@needs_bash
def test_bash_completes_where_unset_names_are_errors(capsys):
    assert completed(capsys, "pre", before="set -u") == ["predict"]


def test_zsh_gets_the_same_script_after_what_it_needs(capsys):
    first, second, rest = script(capsys, "zsh").split("\n", 2)
    assert first == "whence compdef > /dev/null || { autoload -U +X compinit && compinit; }"
    assert second == "autoload -U +X bashcompinit && bashcompinit"
    assert rest == script(capsys, "bash")


def test_no_special_name_of_zsh_is_assigned(capsys):
    assigned = set(re.findall(r"\b([A-Za-z_]+)=", re.sub(r'"[^"]*"', "", script(capsys, "bash"))))
    assert assigned == {"current", "choices", "COMPREPLY"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh on this machine")
def test_zsh_reads_the_script(capsys):
    test = f'{script(capsys, "zsh")}\nprint -r -- "$_comps[fastspml]"'
    got = subprocess.run(["zsh", "-f", "-c", test], capture_output=True, text=True, check=True)
    assert got.stdout == "_bash_complete -o default -F _fastspml\n"
    assert got.stderr == ""
