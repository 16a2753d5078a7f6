"""Questions before something that cannot be undone: a person is asked, a program has to say `--yes`.

Every command of ours that destroys something has the option `--yes`, and ends with status 2 before it does
anything if nobody said it and nobody can be asked. mqadmin's commands (`pyromq admin …`) never ask: scripts
that were written for mqadmin rely on that.
"""

import sys
from typing import Annotated

import typer

from pyromq.cli.exit_status import ended_by_errors
from pyromq.errors import ConfigError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking; needed without a terminal.")]

#: For commands that can also only show what they would do.
OR_LOOK_FIRST = ", or look first with --dry-run"


def has_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def check_asked(question: str, *, is_yes: bool, or_else: str = "") -> None:
    """End the command with status 2 if nobody said --yes and nobody can be asked."""
    if not is_yes and not has_terminal():
        with ended_by_errors():
            raise ConfigError(f"{question} There is no terminal to ask at: say --yes{or_else}")


def confirm(question: str, *, is_yes: bool, or_else: str = "") -> None:
    """Ask before something that cannot be undone; end with status 2 if nobody can be asked."""
    check_asked(question, is_yes=is_yes, or_else=or_else)
    if not is_yes:
        typer.confirm(question, abort=True, err=True)
