"""Help that shows a flag as one: newer typers write `<bool>` behind it, as if it took a value."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _Command(TyperCommand):
    """A command whose flags have no type."""

    def get_params(self, ctx: Any) -> Any:
        """Return its options, and --help."""
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    """The same for what has commands below it."""

    def get_params(self, ctx: Any) -> Any:
        """Return its options, and --help."""
        return _without_types(super().get_params(ctx))


def show_flags_plainly(app: typer.Typer) -> None:
    """Let all commands of a program show their flags so."""
    app.info.cls = _Group
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        group.cls = _Group
        if group.typer_instance is not None:
            show_flags_plainly(group.typer_instance)


def _without_types(params: Any) -> Any:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
