"""The commands of `pyromq`, as the program itself has them."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from pyromq.cli.main import app


@cache
def commands() -> dict[str, Any]:
    """Return every command by its words, as «topic create»."""
    return dict(_below(typer.main.get_command(app), ()))


def asks_a_cluster(command: Any) -> bool:
    """Whether a command takes the address of name servers."""
    return any("-n" in option.opts for option in command.params)


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(words), command
        return
    for name, each in inner.items():
        yield from _below(each, (*words, name))
