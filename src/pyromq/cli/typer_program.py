"""The program as typer has it, with all commands or one; only a plain start of a server does without it."""

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Annotated, Any, get_type_hints

import typer

from pyromq.cli.command_table import CommandEntry
from pyromq.cli.options import examples, typer_option
from pyromq.cli.plain_flags import show_flags_plainly
from pyromq.cli.plain_options import options_of
from pyromq.cli.version import VersionOptions, version


def program_of(entries: Iterable[CommandEntry]) -> typer.Typer:
    """Return the program with these commands; their modules are imported."""
    program = typer.Typer(
        name="pyromq",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help="RocketMQ in Python: servers that RocketMQ's own clients take for the real one.",
        epilog="First steps: [cyan]pyromq up[/cyan] in one terminal,"
        ' [cyan]pyromq produce hello "Hello, world"[/cyan] and [cyan]pyromq consume hello[/cyan] in another.',
    )
    program.callback()(_options)
    for entry in entries:
        loaded = entry.load()
        if isinstance(loaded, typer.Typer):
            program.add_typer(loaded, name=entry.name, rich_help_panel=entry.panel)
            continue
        kind = entry.load_options()
        command = loaded if kind is None else typer_command(loaded, kind)
        program.command(entry.name, rich_help_panel=entry.panel, epilog=examples(*entry.examples))(command)
    show_flags_plainly(program)
    return program


def _version_asked(asked: bool) -> None:  # noqa: FBT001
    if asked:
        version(VersionOptions())
        raise typer.Exit


def _options(
    *,
    is_version_asked: Annotated[
        bool, typer.Option("--version", help=version.__doc__, is_eager=True, callback=_version_asked)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def typer_command(run: Callable[[Any], None], kind: type) -> Callable[..., None]:
    """Return a function with typer's parameters for a command that takes a dataclass of options."""

    def command(**values: Any) -> None:
        run(kind(**values))

    hints = get_type_hints(kind)
    options = options_of(kind)
    command.__signature__ = Signature(  # type: ignore[attr-defined]  # Typer looks there first.
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=kind.__dataclass_fields__[name].default,  # type: ignore[attr-defined]
                annotation=Annotated[hints[name], typer_option(option)],
            )
            for name, option in options.items()
        ]
    )
    command.__doc__ = run.__doc__
    return command
