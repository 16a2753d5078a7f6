"""The whole program, with all commands: for its help, advice about a wrong name, and its pages."""

from pyromq.cli.command_table import COMMANDS
from pyromq.cli.typer_program import program_of

app = program_of(COMMANDS)
