"""Suggestions for a name that is not there, and the command to type next."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from shlex import quote

from pyromq.cli.options import DEFAULT_NAME_SERVER
from pyromq.errors import ConfigError, MessageIllegal, NotThere, PyroError, UnknownTopic

#: The name servers that the command asks, as they were typed.
_asked = ContextVar("asked", default=DEFAULT_NAME_SERVER)


@contextmanager
def asking(name_server: str) -> Iterator[None]:
    """Let commands that are proposed in the block ask these name servers."""
    token = _asked.set(name_server)
    try:
        yield
    finally:
        _asked.reset(token)


def typed(command: str, name_server: str | None = None, *, is_server: bool = False) -> str:
    """Return a command that asks the same name servers, as it has to be typed here."""
    name_server = name_server or _asked.get()
    # A broker has no name server unless it is told one.
    if not is_server and name_server == os.environ.get("NAMESRV_ADDR", DEFAULT_NAME_SERVER):
        return command
    return f"{command} -n {quote(name_server)}"


def others(kind: str, name: str, known: Collection[str]) -> str:
    """Return which names are like this one, or where all of them are listed."""
    command = typed(f"pyromq {kind.removesuffix('s')} list")
    if near := get_close_matches(name, set(known) - {name}, n=3):
        return f"did you mean {' or '.join(near)}? All {kind}: {command}"
    return f"the {kind} that there are: {command}"


def no_topic(topic: str, name_server: str, known: Collection[str]) -> PyroError:
    """Return the error that a topic is not there, in one line with what to type."""
    if topic not in known and (why := _why_no_name(topic)) is not None:
        return ConfigError(why)
    with asking(name_server):
        if topic in known:
            # It came into being between the question and the look for names that are like it.
            return NotThere(
                f"no broker served topic {topic!r} when it was asked for, but {name_server} knows it by now: "
                f"try again; its queues: {typed(f'pyromq topic show {topic}')}"
            )
        return NotThere(
            f"there is no topic {topic!r} at {name_server}; {others('topics', topic, known)}; "
            f"a new one: {typed(f'pyromq topic create {topic}')}"
        )


def _why_no_name(topic: str) -> str | None:
    from pyromq.client.names import check_topic

    try:
        check_topic(topic)
    except MessageIllegal as error:
        return error.remark
    return None


def shorter(error: UnknownTopic) -> PyroError:
    """Return what a client says of a topic that is not there as a command says it."""
    from pyromq.cli.credentials import client_settings
    from pyromq.client.sync.admin import Admin

    try:
        with Admin(error.name_servers, client_settings()) as admin:
            if not admin.cluster().broker_addr_table:
                return NotThere(
                    f"there is no topic {error.topic!r} at {error.name_servers}, and no broker; one is "
                    f"started with: {typed('pyromq broker', error.name_servers, is_server=True)}"
                )
            return no_topic(error.topic, error.name_servers, admin.topics())
    except PyroError:
        return error
