"""Write docs/reference/admin.md from the commands themselves.

`python tools/gen_admin.py` writes it; with `--check` it says whether it is stale and ends with status 1. A
test keeps it fresh (tests/unit/cli/test_admin_reference.py).
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from pyromq.cli import exit_status
from pyromq.cli.admin.read_only_commands import READ_ONLY
from pyromq.cli.main import app

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/reference/admin.md")
#: Options that every command has, or that most have, and that are told once.
COMMON = ("--namesrv", "--json", "--watch", "--help")
WORDS = ("topic", "group", "message", "cluster")
HEAD = """\
# Commands for operators

<!-- Written by tools/gen_admin.py from src/pyromq/cli; change it there. -->

`pyromq admin COMMAND` has all of mqadmin 4.9.8's commands under its names and options, and some more.
`pyromq topic`, `group`, `message` and `cluster` are the same work in words that need no manual. All of it
works on Apache's clusters too, but for `replicas` and `switchMaster`, which only PyroMQ's failover knows.

- What is marked *looks* changes nothing on any server.
- `-n HOST:PORT` (`--namesrvAddr`, or `NAMESRV_ADDR`): the name servers, joined by semicolons.
- `--json`: one JSON object a line, for programs. Without it people get tables: drawn on a terminal, aligned
  text in a pipe, with mqadmin's heads.
- `--watch SECONDS`: look again so often, until interrupted; commands whose numbers move have it.
- Brokers with access control: `PYROMQ_ACCESS_KEY` and `PYROMQ_SECRET_KEY`, or mqadmin's `tools.yml`
  (`PYROMQ_CREDENTIALS`). Secrets are never printed; values of settings whose names say password, secret or
  token are shown as stars.
- `pyromq --install-completion` teaches the shell the commands, their options, and the names of topics and
  groups.
- How to change where a group reads: [offsets](../howto/offsets.md).

## How a command ends

An error is a line with its cause, and one with what to do next, on standard error.

A broker that is gone or hangs does not hide the others: what they say is shown, who is missing and why is on
standard error, and the status is 5. Such a broker is waited for once (3 s), however many topics and groups
are listed; `--watch` goes on, and shows when it is back. In JSON, rows that sum up over brokers name those
that are missing in `silent_brokers`. mqadmin's own lists end with 0 then, as mqadmin does: `clusterList`,
`consumerProgress` without -g, `statsAll` and `topicList -c`.

| status | means |
| --- | --- |
"""


def page() -> str:
    """Return the text of the page."""
    root: Any = typer.main.get_command(app)
    lines = [HEAD.rstrip("\n"), *_statuses()]
    for name in WORDS:
        lines += ["", f"## pyromq {name}", ""]
        for word, command in sorted(root.commands[name].commands.items()):
            lines += _entry(f"pyromq {name} {word}", command, is_look=f"{name} {word}" in READ_ONLY)
    lines += ["", "## pyromq admin", ""]
    for word, command in sorted(root.commands["admin"].commands.items(), key=lambda one: one[0].lower()):
        lines += _entry(word, command, is_look=f"admin {word}" in READ_ONLY)
    return "\n".join(lines) + "\n"


def _statuses() -> Iterator[str]:
    for line in (exit_status.__doc__ or "").splitlines():
        number, _, text = line.strip().partition(" ")
        if number.isdecimal():
            yield f"| {number} | {text.strip()} |"


def _entry(title: str, command: Any, *, is_look: bool) -> Iterator[str]:
    help_text = " ".join((command.help or "").split())
    arguments = [one.metavar or one.name for one in command.params if one.param_type_name == "argument"]
    yield f"**`{' '.join([title, *arguments])}`** {'*looks* ' if is_look else ''}{help_text}"
    options = [
        one
        for one in command.params
        if one.param_type_name == "option" and not set(one.opts) & set(COMMON) and not one.hidden
    ]
    for option in options:
        names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
        value = "" if option.is_flag else f" {option.metavar or option.type.name}"
        must = " (needed)" if option.required else ""
        yield f"- {names}{value}{must}: {option.help}"
    yield ""


def main() -> int:
    """Write the page, or with `--check` only say whether it is stale."""
    path, text = ROOT / PAGE, page()
    if path.exists() and path.read_text() == text:
        return 0
    if "--check" in sys.argv:
        print(f"{PAGE} is stale; run tools/gen_admin.py")
        return 1
    path.write_text(text)
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
