"""Advice on what to do about an error: once for all faces, each of which words it in its own way.

A `step` is for everybody. For a person at a terminal `at_terminal` says what to type; a web page has its own
places for that.
"""

from typing import Final, NamedTuple

from pyromq.codes import ResponseCode
from pyromq.errors import (
    ACCESS_MARK,
    ConfigError,
    NetworkError,
    NoRoute,
    NotThere,
    PyroError,
    Refused,
    RequestTimeout,
    TlsFailed,
)


class Advice(NamedTuple):
    """The next step, and how to take it at a terminal."""

    step: str
    at_terminal: str = ""


_BY_CODE: Final[dict[int, Advice]] = {
    ResponseCode.TOPIC_NOT_EXIST: Advice(
        "look for the topic in the list, or create it", "`pyromq topic list`, `pyromq topic create NAME`"
    ),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Advice(
        "look for the group in the list, or create it", "`pyromq group list`, `pyromq group create NAME`"
    ),
    ResponseCode.QUERY_NOT_FOUND: Advice(
        "look whether topic and key or id are right; messages are gone after fileReservedTime"
    ),
    ResponseCode.CONSUMER_NOT_ONLINE: Advice(
        "start a member of the group and look again; its progress is there without one",
        "`pyromq group lag GROUP`",
    ),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Advice("the server is of a version or kind that cannot do this"),
    ResponseCode.SYSTEM_BUSY: Advice("the server has too much to do: try again in a moment"),
    ResponseCode.SERVICE_NOT_AVAILABLE: Advice(
        "the broker takes no messages now: look at its disk, its role and its log"
    ),
    ResponseCode.NO_PERMISSION: Advice(
        "look at the permissions of the topic, of the broker, and of the account that signs "
        "(PYROMQ_ACCESS_KEY and PYROMQ_SECRET_KEY)"
    ),
}
_ACCESS: Final = Advice(
    "access control says no: nobody signs, or an account that may not do it; PYROMQ_ACCESS_KEY and "
    "PYROMQ_SECRET_KEY say who signs"
)
_NO_ANSWER: Final = Advice(
    "is the server up, and does its address lead from here to it?",
    "-n or NAMESRV_ADDR, -b",
)


def advice_on(failure: str) -> Advice | None:
    """Return what is to be done about one of many failures, of which only the words are left."""
    return _ACCESS if ACCESS_MARK in failure else None


def advice_for(error: PyroError) -> Advice | None:
    """Return what an operator does about an error; None where nothing better is known than its own words."""
    if (refused := advice_on(str(error))) is not None:
        return refused
    if isinstance(error, Refused):
        return _BY_CODE.get(error.code)
    if isinstance(error, RequestTimeout):
        return Advice("the server is there but slow, or the way to it swallows answers: look at its load")
    if isinstance(error, TlsFailed):
        # It says itself what to do.
        return None
    if isinstance(error, NetworkError):
        return _NO_ANSWER
    if isinstance(error, NoRoute):
        return Advice(
            "look whether the broker is there, and has a master", "`pyromq cluster list`, `pyromq doctor`"
        )
    if isinstance(error, NotThere):
        return Advice("look for it in the list; what is new shows after some seconds")
    return Advice("correct it and try again") if isinstance(error, ConfigError) else None
