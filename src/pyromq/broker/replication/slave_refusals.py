"""The refusals of a slave: requests that store a message or change a topic or a group are its master's.

Which requests those are stands on their routes (`on_slave`), and is as with RocketMQ 4.9.8's slave. It finds
out only when it stores, and says that the disk may be full; here the refusal comes first and says what is the
matter.
"""

from collections.abc import Mapping
from typing import Any

from pyromq.broker.requests.route_facts import BrokerTable, OnSlave
from pyromq.codes import ResponseCode
from pyromq.errors import NotMaster, Refused, ServerFailed
from pyromq.net.routes import Guard, Request


def guard_slave(table: BrokerTable, broker_name: str) -> None:
    """Let a slave's table of requests refuse what only a master does; to be called when it is full."""
    guards = _guards(broker_name)
    for route in table:
        if route.on_slave is not OnSlave.ANSWERS:
            table.guard(guards[route.on_slave], (route.code,))


def _guards(broker_name: str) -> Mapping[OnSlave, Guard]:
    where = f"its master, broker id 0 of {broker_name}, does; the name servers know where that is"

    def refuse_messages(_request: Request[Any]) -> None:
        raise NotMaster(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"service not available now: {NotMaster.SLAVE} and takes no messages; {where}",
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
        OnSlave.TAKES_NO_MESSAGES: refuse_messages,
        OnSlave.TAKES_NOTHING_BACK: refuse_retry,
        OnSlave.ENDS_NO_TRANSACTIONS: refuse_end,
        OnSlave.CHANGES_NOTHING: refuse_change,
    }
