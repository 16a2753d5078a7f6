"""No more of the program than the command that is asked for: building all takes longer than most run."""

from collections.abc import Sequence
from copy import copy

import typer
from typer.main import get_command_name


def asked_of(program: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return the program with only the command that the words begin with.

    Where they name none (an option, a wrong name, nothing) it is returned whole, for its help or its advice.
    """
    name = words[0] if words else ""
    commands = [each for each in program.registered_commands if _name(each) == name]
    groups = [each for each in program.registered_groups if each.name == name]
    if not commands and not groups:
        return program
    narrow = copy(program)
    narrow.registered_commands = commands
    narrow.registered_groups = [_within(each, words[1:]) for each in groups]
    return narrow


def _within(group: typer.models.TyperInfo, words: Sequence[str]) -> typer.models.TyperInfo:
    narrow = copy(group)
    if group.typer_instance is not None:
        narrow.typer_instance = asked_of(group.typer_instance, words)
    return narrow


def _name(command: typer.models.CommandInfo) -> str:
    if command.name is None and command.callback is not None:
        return get_command_name(command.callback.__name__)
    return command.name or ""
