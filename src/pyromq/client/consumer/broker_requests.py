"""Requests of brokers to a consumer: the group changed, offsets are reset, an operator asks how it is.

RocketMQ's own lite pull consumer does not hear of a reset of offsets and writes over it; ours goes on there.
"""

import logging
from typing import TYPE_CHECKING, Any

from pyromq.client.consumer.group_member import GroupMember
from pyromq.client.consumer.intervals import OwnedTasks
from pyromq.client.consumer.running_report import running_state
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import ServerFailed
from pyromq.net.routes import Answer, Request, Route
from pyromq.wire.bodies.offset_bodies import decode_reset_offsets, encode_consumer_status
from pyromq.wire.bodies.running_info import encode_running_state
from pyromq.wire.headers.group_headers import GetConsumerRunningInfo, NotifyConsumerIdsChanged
from pyromq.wire.headers.offset_headers import GetConsumerStatusFromClient, ResetConsumerClientOffset

if TYPE_CHECKING:
    from pyromq.client.consumer.consumer_engine import ConsumerEngine

_log = logging.getLogger("pyromq.client")


class BrokerRequests:
    """Answers brokers on behalf of a consumer."""

    def __init__(self, consumer: "ConsumerEngine[Any]") -> None:
        self._consumer = consumer
        self._tasks = OwnedTasks("pyromq-reset")

    def routes(self) -> list[Route[Any]]:
        """Return the requests that are answered, with their handlers."""
        return [
            Route(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._group_changed, NotifyConsumerIdsChanged),
            Route(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset, ResetConsumerClientOffset),
            Route(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status, GetConsumerStatusFromClient),
            Route(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running, GetConsumerRunningInfo),
        ]

    async def close(self) -> None:
        """End resets that are in progress."""
        await self._tasks.cancel()

    def _group_changed(self, request: Request[NotifyConsumerIdsChanged]) -> None:
        member, group = self._consumer.member, request.header.consumer_group
        _log.info("%s: group %s changed", request.link.peer, group)
        if group != member.session.group:
            # A warning stands behind the group's name, for clients that log it.
            member.is_unknown.set()
        self._consumer.want_rebalance()

    def _reset(self, request: Request[ResetConsumerClientOffset]) -> None:
        header = request.header
        if header.group != self._consumer.member.session.group or not request.body:
            return
        offsets = decode_reset_offsets(request.body)
        ours = {queue: offset for queue, offset in offsets.items() if queue.topic == header.topic}
        _log.warning("%s: group %s goes on elsewhere in %s", request.link.peer, header.group, header.topic)
        self._tasks.start(self._consumer.move(ours))

    def _status(self, request: Request[GetConsumerStatusFromClient]) -> Answer:
        topic = request.header.topic
        offsets = {
            queue: finished
            for queue, state in self._consumer.member.queues.items()
            if (finished := state.progress.finished) is not None and topic in ("", queue.topic)
        }
        return Answer(body=encode_consumer_status(offsets))

    def _running(self, request: Request[GetConsumerRunningInfo]) -> Answer:
        header = request.header
        check_group(self._consumer.member, header.consumer_group)
        state = running_state(
            self._consumer.member, self._consumer.outlet.shown(), with_stacks=header.jstack_enable
        )
        return Answer(body=encode_running_state(state))


def check_group(member: GroupMember[Any], group: str) -> None:
    """Refuse a question about a group that this consumer is not in."""
    if group != member.session.group:
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
        )
