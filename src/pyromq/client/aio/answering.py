"""What brokers ask and tell a pull consumer: its group changed, go on elsewhere, how far are you.

RocketMQ's own lite pull consumer does not hear of a reset of offsets and writes over it; ours goes on there.
"""

import logging
from typing import Any, Protocol

from pyromq.client.push.delivery import ConsumeModel
from pyromq.client.push.report import VERSION_NAME, shown_settings, stacks
from pyromq.client.push.timers import Tasks
from pyromq.client.session import Session
from pyromq.client.shelf import ReadQueue
from pyromq.codes import RequestCode
from pyromq.config.settings import MIB
from pyromq.model import MessageQueue
from pyromq.net.routes import Answer, Request, Route
from pyromq.wire.bodies.heartbeat import ConsumeType, Subscription
from pyromq.wire.bodies.offsets import decode_reset_offsets, encode_consumer_status
from pyromq.wire.bodies.running import QueueState, RunningState, encode_running_state
from pyromq.wire.headers.group import GetConsumerRunningInfo, NotifyConsumerIdsChanged
from pyromq.wire.headers.offset import GetConsumerStatusFromClient, ResetConsumerClientOffset

_log = logging.getLogger("pyromq.client")


class Engine(Protocol):
    """What the requests need of the consumer. Queues and topics have their names on the wire."""

    @property
    def session(self) -> Session:
        """Who it is."""
        ...

    @property
    def model(self) -> ConsumeModel:
        """Whether the group's members share queues, or each reads all."""
        ...

    @property
    def subscriptions(self) -> list[Subscription]:
        """What it wants."""
        ...

    @property
    def readers(self) -> dict[MessageQueue, ReadQueue]:
        """What it has."""
        ...

    def tell_anew(self) -> None:
        """Send heartbeats soon, for what brokers have to say of the group."""
        ...

    def share_anew(self) -> None:
        """Look soon who reads what."""
        ...

    async def move(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at other offsets."""
        ...


class Answering:
    """Answers brokers on behalf of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks = Tasks("pyromq-reset")

    def routes(self) -> list[Route[Any]]:
        """Return the requests that are answered, with their handlers."""
        return [
            Route(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._group_changed, NotifyConsumerIdsChanged),
            Route(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._reset, ResetConsumerClientOffset),
            Route(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status, GetConsumerStatusFromClient),
            Route(RequestCode.GET_CONSUMER_RUNNING_INFO, self._running, GetConsumerRunningInfo),
        ]

    def _group_changed(self, request: Request[NotifyConsumerIdsChanged]) -> None:
        group = request.header.consumer_group
        _log.info("%s: group %s changed", request.link.peer, group)
        if group != self._engine.session.group:
            # A warning stands behind the group's name, for clients that log it.
            self._engine.tell_anew()
        self._engine.share_anew()

    def _reset(self, request: Request[ResetConsumerClientOffset]) -> None:
        header = request.header
        if header.group != self._engine.session.group or not request.body:
            return
        offsets = decode_reset_offsets(request.body)
        ours = {queue: offset for queue, offset in offsets.items() if queue.topic == header.topic}
        _log.warning("%s: group %s goes on elsewhere in %s", request.link.peer, header.group, header.topic)
        self._tasks.start(self._engine.move(ours))

    def _status(self, request: Request[GetConsumerStatusFromClient]) -> Answer:
        offsets = {
            queue: reader.finished
            for queue, reader in self._engine.readers.items()
            if reader.is_placed and queue.topic == request.header.topic
        }
        return Answer(body=encode_consumer_status(offsets))

    def _running(self, request: Request[GetConsumerRunningInfo]) -> Answer:
        engine = self._engine
        properties = shown_settings(engine.session) | {
            "messageModel": engine.model.upper(),
            "PROP_CONSUME_TYPE": ConsumeType.CONSUME_ACTIVELY,
            "PROP_CLIENT_VERSION": VERSION_NAME,
        }
        state = RunningState(
            properties=properties,
            subscriptions=engine.subscriptions,
            queues={queue: _queue_state(reader) for queue, reader in engine.readers.items()},
            topics={},
            stacks=stacks() if request.header.jstack_enable else None,
        )
        return Answer(body=encode_running_state(state))


def _queue_state(reader: ReadQueue) -> QueueState:
    return QueueState(
        commit_offset=-1 if reader.committed is None else reader.committed,
        cached_msg_min_offset=reader.handed_out if reader.waiting_count else 0,
        cached_msg_max_offset=reader.next_offset - 1 if reader.waiting_count else 0,
        cached_msg_count=reader.waiting_count,
        cached_msg_size_in_mib=reader.waiting_bytes // MIB,
    )
