"""What brokers ask and tell a consumer: its group changed, go on elsewhere, what do you do, do this one."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from pyromq.client.incoming import received_messages
from pyromq.client.push.calling import Caller
from pyromq.client.push.delivery import ConsumeResult
from pyromq.client.push.member import Member
from pyromq.client.push.outcome import Work
from pyromq.client.push.report import running_state
from pyromq.client.push.timers import Tasks
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import ServerFailed
from pyromq.model import MessageQueue
from pyromq.net.routes import Answer, Request, Route
from pyromq.wire.bodies.offsets import decode_reset_offsets, encode_consumer_status
from pyromq.wire.bodies.running import (
    DirectConsumption,
    DirectResult,
    encode_direct_consumption,
    encode_running_state,
)
from pyromq.wire.headers.group import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    NotifyConsumerIdsChanged,
)
from pyromq.wire.headers.offset import GetConsumerStatusFromClient, ResetConsumerClientOffset

_log = logging.getLogger("pyromq.client")

#: Seconds that listeners may go on with what they have before the new offset holds; RocketMQ's wait always.
RESET_PATIENCE_S = 10.0
_DIRECT = {
    ConsumeResult.SUCCESS: DirectResult.SUCCESS,
    ConsumeResult.RECONSUME_LATER: DirectResult.LATER,
    ConsumeResult.COMMIT: DirectResult.COMMIT,
    ConsumeResult.ROLLBACK: DirectResult.ROLLBACK,
}


class Engine(Protocol):
    """What the requests need of the consumer."""

    member: Member
    caller: Caller
    started_ms: int

    def want_rebalance(self) -> None:
        """Look soon at who reads which queue."""
        ...

    async def move(self, offsets: dict[MessageQueue, int], patience_s: float) -> None:
        """Go on at other offsets, when listeners have ended or after that time."""
        ...


class Incoming:
    """Answers brokers. The engine is asked for when a request comes: it is not there before its start."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._tasks = Tasks("pyromq-reset")

    def routes(self) -> list[Route[Any]]:
        """Return the requests that are answered, with their handlers."""
        return [
            Route(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._group_changed, NotifyConsumerIdsChanged),
            Route(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset, ResetConsumerClientOffset),
            Route(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status, GetConsumerStatusFromClient),
            Route(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running, GetConsumerRunningInfo),
            Route(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume, ConsumeMessageDirectly),
        ]

    async def close(self) -> None:
        """End what is under way."""
        await self._tasks.cancel()

    def _group_changed(self, request: Request[NotifyConsumerIdsChanged]) -> None:
        engine, group = self._engine(), request.header.consumer_group
        _log.info("%s: group %s changed", request.link.peer, group)
        if group != engine.member.session.group:
            # A warning stands behind the group's name, for clients that log it.
            engine.member.is_unknown.set()
        engine.want_rebalance()

    def _reset(self, request: Request[ResetConsumerClientOffset]) -> None:
        engine, header = self._engine(), request.header
        if header.group != engine.member.session.group:
            return
        offsets = decode_reset_offsets(request.body) if request.body else {}
        ours = {queue: offset for queue, offset in offsets.items() if queue.topic == header.topic}
        _log.warning("%s: group %s goes on elsewhere in %s", request.link.peer, header.group, header.topic)
        self._tasks.start(engine.move(ours, RESET_PATIENCE_S))

    def _status(self, request: Request[GetConsumerStatusFromClient]) -> Answer:
        offsets = self._engine().member.progress.offsets.of_topic(request.header.topic)
        return Answer(body=encode_consumer_status(offsets))

    def _running(self, request: Request[GetConsumerRunningInfo]) -> Answer:
        engine, header = self._engine(), request.header
        self._check_group(header.consumer_group)
        state = running_state(
            engine.member, engine.started_ms, engine.caller.size, with_stacks=header.jstack_enable
        )
        return Answer(body=encode_running_state(state))

    async def _consume(self, request: Request[ConsumeMessageDirectly]) -> Answer:
        engine, header = self._engine(), request.header
        self._check_group(header.consumer_group)
        messages = received_messages(request.body, header.broker_name or "")
        engine.member.restore_topics(messages)
        work = Work(None, messages, messages[0].queue)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_work: Work) -> None:
            if not ended.done():
                ended.set_result(None)

        engine.caller.submit(work, done)
        await ended
        return Answer(body=encode_direct_consumption(_consumption(work, is_orderly=engine.member.is_orderly)))

    def _check_group(self, group: str) -> None:
        if group != self._engine().member.session.group:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
            )


def _consumption(work: Work, *, is_orderly: bool) -> DirectConsumption:
    result = _DIRECT[work.verdict]
    remark = None
    if work.error is not None:
        result, remark = DirectResult.THROW_EXCEPTION, f"{type(work.error).__name__}: {work.error}"
    return DirectConsumption(
        order=is_orderly,
        auto_commit=work.delivery.auto_commit,
        consume_result=result,
        remark=remark,
        spent_time_mills=work.spent_ms,
    )
