"""Commands that destroy something: without a terminal and --yes they end with status 2, and do nothing."""

import pytest
from command_walk import commands
from typer.testing import CliRunner

from pyromq.cli.main import app

#: Nothing listens there: a command that does more than refuse ends with status 4.
NOBODY = "127.0.0.1:1"
#: All commands of ours that destroy something, as they are typed.
DESTRUCTIVE = {
    "topic delete": ("orders",),
    "group delete": ("billing",),
    "group reset": ("billing", "-t", "orders", "--to", "last"),
    "group clone": ("billing", "audit", "-t", "orders"),
    "delayed recall": ("7F00000100010CA5D2F80000002A0001",),
}
#: Asks only about many, which it counts first; `test_cli_dlq.py` has it.
ASKS_ABOUT_MANY = {"dlq replay"}
#: Everything else: what looks, starts, sends, copies, and what another order takes back.
HARMLESS = {
    "broker",
    "cluster list",
    "cluster set",
    "cluster settings",
    "cluster status",
    "consume",
    "dashboard",
    "delayed list",
    "delayed show",
    "dlq list",
    "dlq show",
    "doctor",
    "run",
    "group create",
    "group lag",
    "group list",
    "group members",
    "group show",
    "health",
    "job archive",
    "job mirror",
    "job replay",
    "job verify",
    "message at",
    "message search",
    "message show",
    "message trace",
    "namesrv",
    "pipeline check",
    "pipeline init",
    "pipeline run",
    "produce",
    "store backup",
    "store dump",
    "store verify",
    "top",
    "topic allow",
    "topic create",
    "topic list",
    "topic rates",
    "topic show",
    "torture",
    "up",
    "version",
}


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["for people", "for programs"])
@pytest.mark.parametrize("name", DESTRUCTIVE)
def test_nothing_is_destroyed_without_a_terminal_unless_told(name: str, more: tuple[str, ...]) -> None:
    words = [*name.split(), *DESTRUCTIVE[name], "-n", NOBODY, *more]
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "There is no terminal to ask at: say --yes" in refused.stderr
    # It goes on with --yes, and finds nobody.
    assert CliRunner().invoke(app, [*words, "--yes"]).exit_code != 2


@pytest.mark.parametrize("name", ["group reset", "group clone"])
def test_a_look_at_what_would_change_needs_no_yes(name: str) -> None:
    looked = CliRunner().invoke(app, [*name.split(), *DESTRUCTIVE[name], "-n", NOBODY, "--dry-run"])
    assert looked.exit_code == 4


def test_every_command_is_known_to_destroy_something_or_not() -> None:
    """A new command belongs to one of the lists. mqadmin's own names never ask, as mqadmin does not."""
    ours = {name for name in commands() if not name.startswith(("admin ", "bench "))}
    assert ours == DESTRUCTIVE.keys() | ASKS_ABOUT_MANY | HARMLESS
    asking = {name for name in commands() if any("--yes" in each.opts for each in commands()[name].params)}
    assert asking == DESTRUCTIVE.keys() | ASKS_ABOUT_MANY
