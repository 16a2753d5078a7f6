"""The running of operators' commands: a look that is shown, or an order and its results."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from pyromq.cli import output
from pyromq.cli.credentials import client_settings
from pyromq.cli.exit_status import FAILED, IN_PART, ended_by_errors, say_next_step
from pyromq.cli.views.likely import asking, no_topic
from pyromq.cli.views.listing import Listing, show_again
from pyromq.errors import PyroError, TopicNotFound

if TYPE_CHECKING:
    from pyromq.client.plans.admin.scaling_plans import ServerReply
    from pyromq.client.sync.admin import Admin
    from pyromq.config.settings import ClientSettings


def operator_settings() -> "ClientSettings":
    """Return an operator's settings, with the keys of the environment."""
    return client_settings()


@contextmanager
def operating(name_server: str) -> Iterator["Admin"]:
    """Give an admin client; an error ends the command with its status."""
    from pyromq.client.sync.admin import Admin

    with ended_by_errors(), asking(name_server), Admin(name_server, operator_settings()) as admin:
        try:
            yield admin
        except TopicNotFound as error:
            raise _no_topic(admin, name_server, error) from error


#: How name servers and brokers end the sentence that a topic is not there.
_NAME = re.compile(r"\bfor the topic: ([^\n]+)|\btopic(?:: ?| ?\[)([%|a-zA-Z0-9_-]+)")


def _no_topic(admin: "Admin", name_server: str, error: TopicNotFound) -> PyroError:
    """Return the error with the names of topics that are like the one that was asked for."""
    named = _NAME.search(error.remark or "")
    if named is None:
        return error
    return no_topic(named[1] or named[2], name_server, admin.topics())


def look(
    name_server: str,
    find: "Callable[[Admin], Listing]",
    *,
    is_json: bool,
    watch: float | None = None,
    is_part_enough: bool = False,
) -> Listing | None:
    """Show what is found, and return it; with `watch` again and again.

    Status 5 when brokers did not answer, unless a part is enough, as it is for mqadmin's lists.
    """
    with operating(name_server) as admin:
        if watch is not None:
            show_again(lambda: find(admin), watch, is_json=is_json)
            return None
        found = find(admin)
        found.show(is_json=is_json)
    if found.status and not (is_part_enough and found.status == IN_PART):
        raise typer.Exit(found.status)
    return found


def order(
    name_server: str,
    do: "Callable[[Admin], Sequence[ServerReply]]",
    *,
    said: str,
    is_json: bool,
    **fields: Any,
) -> None:
    """Have something done by servers, and print what each said; status 1 when one did not do it.

    `said` is the line for each that did, with {} for its address.
    """
    with operating(name_server) as admin:
        told = do(admin)
    show_told(told, said=said, is_json=is_json, **fields)


def show_told(told: "Sequence[ServerReply]", *, said: str, is_json: bool, **fields: Any) -> None:
    """Print what each server said; status 1 when one did not do it."""
    for one in told:
        if is_json:
            output.say_json({"server": one.address, **fields, "failure": one.failure})
        elif one.failure is None:
            # Not `format`: names and values that are told may have braces of their own.
            output.say(said.replace("{}", one.address))
        else:
            output.complain(f"{one.address} did not: {one.failure}")
    failures = [one.failure for one in told if one.failure is not None]
    say_next_step(failures)
    if failures:
        raise typer.Exit(FAILED)
