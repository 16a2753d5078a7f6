"""The command line of `pyromq`, as a test asks it whether it would understand a command.

Nothing is run: names of commands, options, missing arguments and the values' types are looked at, no more.
"""

import shlex
from collections.abc import Sequence
from functools import cache

import typer
from typer import _click as click  # Typer brings its own.
from typer.core import TyperGroup

from pyromq.cli.main import app

#: A shell's signs, which end a command or lead elsewhere what it prints.
_SIGNS = "|&;<>"


@cache
def _whole() -> click.Command:
    return typer.main.get_command(app)


def complaint(command: str) -> str | None:
    """Return what `pyromq` has against a command; None if it would do it."""
    try:
        words = words_of(command)
    except ValueError as error:
        return f"no shell reads this: {error}"
    return complaint_about(words)


def words_of(command: str) -> list[str]:
    """Return the words that a shell gives to the first program of a line, the program left out."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_SIGNS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = []
    for word in lexer:
        if word and word[0] in _SIGNS + "#":
            break
        words.append(word)
    if words and f" {words[-1]}>" in command:
        # The number of what is led elsewhere, as in 2>.
        words.pop()
    return words[1:]


def complaint_about(words: Sequence[str]) -> str | None:
    """Return what `pyromq` has against the words behind its name; None if it would do it."""
    here: click.Command = _whole()
    context = None
    # What reads this option also does what it says.
    left = [word for word in words if word != "--install-completion"]
    name = "pyromq"
    try:
        while True:
            if left in ([], ["--help"]) and isinstance(here, TyperGroup):
                # To name a group of commands is to ask for its help.
                return None
            context = here.make_context(name, left, parent=context)
            if not isinstance(here, TyperGroup):
                return None
            # A group keeps what it does not read for its command.
            left = [*context._protected_args, *context.args]
            found, next_one, left = here.resolve_command(context, left)
            if next_one is None or found is None:
                return f"no command {left[0]!r}"
            here, name = next_one, found
    except typer.Exit:
        return None
    except click.ClickException as error:
        return error.format_message()
