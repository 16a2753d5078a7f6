"""What to do next when something failed: the line under an error's cause."""

from pyromq.codes import ResponseCode
from pyromq.dashboard.views import NotThere
from pyromq.errors import (
    ConfigError,
    ConnectFailed,
    NoPermission,
    NoRoute,
    PyroError,
    QueryNotFound,
    Refused,
    RequestTimeout,
    TopicNotFound,
)

_BY_CODE = {
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "This broker does not know the request: its version is too old "
    "for it. Use a broker from 4.9.8 on.",
    ResponseCode.CONSUMER_NOT_ONLINE: "Start a member of the group and look again.",
    ResponseCode.SYSTEM_BUSY: "The broker has too much to do. Try again in a moment.",
    ResponseCode.SERVICE_NOT_AVAILABLE: "The broker takes no messages now: look at its disk and its log.",
    ResponseCode.NO_PERMISSION: "Look at the permissions of the topic, of the broker, and of the account.",
}


def next_step(error: PyroError) -> str:
    """Return what an operator does about an error."""
    if isinstance(error, NotThere):
        return "Look for it in the list; what is new shows after some seconds."
    if isinstance(error, TopicNotFound):
        return "Look for the topic in the list, or create it there."
    if isinstance(error, QueryNotFound):
        return "Look whether the topic is right, and whether the message is younger than fileReservedTime."
    if isinstance(error, NoPermission):
        return _BY_CODE[ResponseCode.NO_PERMISSION]
    if isinstance(error, Refused):
        return (
            _BY_CODE.get(ResponseCode(error.code), "The broker's log says more.")
            if _is_known(error)
            else ("The broker's log says more.")
        )
    if isinstance(error, ConnectFailed):
        return "Look whether the server runs there, and whether this machine may reach its address."
    if isinstance(error, RequestTimeout):
        return "The server is there but slow: look at its load, then try again."
    if isinstance(error, NoRoute):
        return "Look on the first page whether the broker is there, and has a master."
    if isinstance(error, ConfigError):
        return "Correct it and try again."
    return "Try again; the dashboard's log says more."


def _is_known(error: Refused) -> bool:
    return error.code in set(ResponseCode)
