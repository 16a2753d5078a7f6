"""What a slave does not do: whatever stores a message or changes a topic or a group is its master's.

The codes are those of RocketMQ 4.9.8's slave. It finds out only when it stores, and says that the disk may be
full; here the refusal comes first and says what is the matter. Everything else is answered: pulls, queries,
offsets, heartbeats, and locks of queues.
"""

from collections.abc import Mapping
from typing import Any, Final

from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import Refused, ServerFailed, ServiceNotAvailable
from pyromq.net.routes import Guard, Request, RouteTable

_UNAVAILABLE: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.RECALL_MESSAGE,
    RequestCode.LIST_WAITING,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.OPEN_STAGED_BATCH,
    RequestCode.STAGE_MESSAGES,
    RequestCode.PUBLISH_STAGED,
    RequestCode.ABORT_STAGED,
    RequestCode.STAGED_STATUS,
)
_UNCHANGEABLE: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.CLONE_GROUP_OFFSET,
)


def guard_slave(table: RouteTable, broker_name: str) -> None:
    """Let a slave's table of requests refuse what only a master does; to be called when it is full."""
    for code, guard in _guards(broker_name).items():
        table.guard(guard, (code,))


def _guards(broker_name: str) -> Mapping[int, Guard]:
    where = f"its master, broker id 0 of {broker_name}, does; the name servers know where that is"

    def refuse_messages(_request: Request[Any]) -> None:
        raise ServiceNotAvailable(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"service not available now: this broker is a slave and takes no messages; {where}",
        )

    def refuse_retry(_request: Request[Any]) -> None:
        # RocketMQ's client then sends the message to the retry topic itself, to whichever master there is.
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            f"SERVICE_NOT_AVAILABLE: this broker is a slave and takes no messages back; {where}",
        )

    def refuse_end(_request: Request[Any]) -> None:
        raise Refused(
            ResponseCode.SLAVE_NOT_AVAILABLE,
            f"this broker is a slave and ends no transactions; {where}, and it asks for the fate of those "
            "that are undecided",
        )

    def refuse_change(_request: Request[Any]) -> None:
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            "Can't modify topic or subscription group from slave broker, please execute it from master "
            "broker.",
        )

    return {
        **dict.fromkeys(_UNAVAILABLE, refuse_messages),
        RequestCode.CONSUMER_SEND_MSG_BACK: refuse_retry,
        RequestCode.END_TRANSACTION: refuse_end,
        **dict.fromkeys(_UNCHANGEABLE, refuse_change),
    }
