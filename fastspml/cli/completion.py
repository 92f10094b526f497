"""Print a script that completes commands and options in a shell; the shell then also completes file names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

EXAMPLE = """\
fastspml completion bash > ~/.local/share/bash-completion/completions/fastspml
fastspml completion zsh >> ~/.zshrc"""

# Runs in bash, and in zsh under bashcompinit. There `words` is a special array, compgen leaves it to the shell to keep
# what matches, and a word that is still empty can be missing from COMP_WORDS.
SCRIPT = """\
_fastspml() {{
    local current="${{COMP_WORDS[COMP_CWORD]:-}}" choices=""
    case "$COMP_CWORD ${{COMP_WORDS[1]:-}} ${{COMP_WORDS[2]:-}}" in
{cases}
    esac
    COMPREPLY=()
    if [[ "$current" == -* || "$COMP_CWORD" == 1 || "$choices" != -* ]]; then
        COMPREPLY=($(compgen -W "$choices" -- "$current"))
    fi
}}
complete -o default -F _fastspml fastspml
"""

# bashcompinit provides `complete`, which needs the `compdef` of compinit; a bare .zshrc has neither.
ZSH = """\
whence compdef > /dev/null || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=["bash", "zsh"])


def run(options: argparse.Namespace) -> None:
    """Print the script, made from the parsers of all commands."""
    from fastspml.cli import COMMANDS

    cases = [_case('"1 "*', [*COMMANDS, "--help", "--version"])]
    for name in COMMANDS:
        cases += list(_command_cases(name))
    print(f"{ZSH if options.shell == 'zsh' else ''}{SCRIPT.format(cases=chr(10).join(cases))}", end="")


def _command_cases(name: str) -> Iterator[str]:
    """Yield the cases of a command; more special ones first."""
    from fastspml.cli import build_parser

    parser = _subparsers(build_parser(name))[name]
    formats = _subparsers(parser)
    if formats:
        yield _case(f'"2 {name} "*', list(formats))
    for kind, nested in formats.items():
        yield _case(f'*" {name} {kind}"', _flags(nested))
    yield _case(f'*" {name} "*', _flags(parser))


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands of a parser, by name."""
    choices = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(choices[0]) if choices else {}


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of a parser, those with two dashes only."""
    return [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]


def _case(pattern: str, words: list[str]) -> str:
    return f'        {pattern}) choices="{" ".join(words)}" ;;'
