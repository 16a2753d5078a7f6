"""How a command ends, for scripts, and what a person is told to do next.

0    done
1    failed: a server said no, or part of it was not done
2    wrong use: an option or a setting
3    not there, or not yet: no such cluster, topic, group or message; nobody connected; members disagree
4    no answer: a name server or broker cannot be reached
130  interrupted
"""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from pyromq.cli import output
from pyromq.codes import ResponseCode
from pyromq.errors import ConfigError, NetworkError, NoRoute, PyroError, Refused, TopicNotFound

DONE = 0
FAILED = 1
MISUSED = 2
NOT_THERE = 3
NO_ANSWER = 4

_ABSENT = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.QUERY_NOT_FOUND,
        ResponseCode.CONSUMER_NOT_ONLINE,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.NO_MESSAGE,
    }
)
_NEXT: dict[int, str] = {
    ResponseCode.CONSUMER_NOT_ONLINE: "start a member, or look at its progress: pyromq group lag GROUP",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "the groups that there are: pyromq group list",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "the server is of a version or kind that cannot do this",
    ResponseCode.NO_PERMISSION: "PYROMQ_ACCESS_KEY and PYROMQ_SECRET_KEY sign requests, if that is it",
}


class NotThere(PyroError):
    """What was asked for is not there."""


def status_of(error: PyroError) -> int:
    """Return the exit status that an error ends a command with."""
    if isinstance(error, ConfigError):
        return MISUSED
    if isinstance(error, NotThere | NoRoute) or (isinstance(error, Refused) and error.code in _ABSENT):
        return NOT_THERE
    if isinstance(error, NetworkError):
        return NO_ANSWER
    return FAILED


def next_step(error: PyroError) -> str | None:
    """Return what to do about an error that does not say so itself."""
    if isinstance(error, TopicNotFound):
        return "the topics that there are: pyromq topic list; a new one: pyromq topic create NAME"
    if isinstance(error, Refused):
        return _NEXT.get(error.code)
    if isinstance(error, NetworkError) and "--advertise" not in str(error):
        return "is the server up, and are -n (or NAMESRV_ADDR) and -b its addresses?"
    return None


@contextmanager
def ended_by_errors() -> Iterator[None]:
    """End the command with the status of an error, after its cause and the next step."""
    try:
        yield
    except PyroError as error:
        hint = next_step(error)
        output.complain(str(error) if hint is None else f"{error}\n{hint}")
        raise typer.Exit(status_of(error)) from error
