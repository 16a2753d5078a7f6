"""Runs the command that is asked for, and imports no more than it needs.

A server's command line that is right needs no typer: `plain_parser.py` reads it. Help, completion, complaints
about wrong words and all other commands are typer's.
"""

import os
import sys
from collections.abc import Sequence

from pyromq.cli.command_table import entry_of
from pyromq.cli.exit_status import DONE, border
from pyromq.cli.plain_parser import read_plainly
from pyromq.cli.start import imported

#: Set by the shell when it wants words to complete a command line with.
_COMPLETION = "_PYROMQ_COMPLETE"


def main() -> None:
    """Run the program and end it with its exit status."""
    with border():
        words = sys.argv[1:]
        if words == ["--version"]:
            words = ["version"]
        if _COMPLETION in os.environ or not _run_plainly(words):
            _run_by_typer(words)
        sys.exit(DONE)


def _run_plainly(words: Sequence[str]) -> bool:
    """Run a command that needs no typer; return whether it was one, with words that are right."""
    entry = entry_of(words[0]) if words else None
    kind = None if entry is None else entry.load_options()
    given = None if kind is None else read_plainly(kind, words[1:])
    if entry is None or given is None:
        return False
    entry.load()(given)
    return True


def _run_by_typer(words: Sequence[str]) -> None:
    from pyromq.cli.asked import asked_of
    from pyromq.cli.typer_program import program_of

    entry = entry_of(words[0]) if words else None
    if entry is None:
        from pyromq.cli.main import app
    else:
        app = program_of([entry])
    imported()
    asked_of(app, words)(prog_name="pyromq")
