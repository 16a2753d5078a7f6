"""PullMessage, UpdateOffset, GetOffset and QueryOffset: reading one queue, and a group's progress in it.

No SDK calls them, and RocketMQ's proxy does not have them; they do what the requests of the same names do in
the remoting protocol.
"""

import asyncio
from functools import partial
from typing import Final

from pyromq.broker.delivery.arrivals import Arrivals, HeldPull
from pyromq.broker.delivery.sql_filters import FilterTable
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.grpc.consuming.consume_checks import ConsumeChecks
from pyromq.broker.grpc.consuming.consume_filters import pop_filter
from pyromq.broker.grpc.consuming.consume_times import ReceiveWaits
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.pop.pop_asks import COUNT_MAX, PopFilter
from pyromq.clock import Clock
from pyromq.config.settings import BrokerProcess
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.store.reading import GetStatus, Got
from pyromq.store.store import MessageStore
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_names import check_grpc_group, check_grpc_topic
from pyromq.wire.grpc.grpc_times import ms_of
from pyromq.wire.grpc.proto_numbers import OffsetPolicy
from pyromq.wire.grpc.receive_answers import RECEIVED_OK, pulled_messages, pulled_next, received_status
from pyromq.wire.grpc.shown_messages import shown_topic

_WRONG_OFFSET: Final = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY)
_EMPTY_QUEUE: Final = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
_NO_NEW: Final = received_status(GrpcCode.MESSAGE_NOT_FOUND, "no new message")


class QueueReadHandlers:
    """Answers requests that name a queue and an offset."""

    def __init__(
        self,
        checks: ConsumeChecks,
        waits: ReceiveWaits,
        *,
        settings: BrokerProcess,
        clock: Clock,
        store: MessageStore,
        groups: Groups,
        arrivals: Arrivals,
        filters: FilterTable,
    ) -> None:
        self._checks = checks
        self._waits = waits
        self._settings = settings
        self._clock = clock
        self._store = store
        self._offsets = groups.offsets
        self._arrivals = arrivals
        self._filters = filters

    async def pull(self, call: GrpcCall, caller: GrpcCaller, request: pb.PullMessageRequest) -> None:
        """Send the messages of a queue from an offset on, or wait for the next one."""
        topic, queue_id = self._queue(request.message_queue)
        check_grpc_group(request.group.name)
        timeout = ms_of(request.long_polling_timeout) if request.HasField("long_polling_timeout") else None
        wait_ms = self._waits.polling_ms(call, caller, timeout)
        expression = request.filter_expression
        wanted = pop_filter(self._filters, expression.type, expression.expression)
        _check_pull(request)
        self._checks.consuming_group(request.group.name, topic)
        got = self._read(topic, queue_id, request, wanted)
        if _is_at_end(got, request.offset):
            await self._wait(topic, queue_id, request.offset, wanted, wait_ms)
            got = self._read(topic, queue_id, request, wanted)
        if got.status is GetStatus.FOUND:
            call.send(RECEIVED_OK)
            for message in pulled_messages(
                got.body, shown_topic(topic), self._settings.store.max_message_size
            ):
                call.send(message)
                await call.room()
        elif got.status in _WRONG_OFFSET:
            call.send(
                received_status(
                    GrpcCode.ILLEGAL_OFFSET, f"the queue has no offset {request.offset} any more, or yet"
                )
            )
        else:
            call.send(_NO_NEW)
        call.send(pulled_next(got.next_offset))

    def update_offset(self, _caller: GrpcCaller, request: pb.UpdateOffsetRequest) -> pb.UpdateOffsetResponse:
        """Set the offset that a group reads next."""
        topic, queue_id = self._queue(request.message_queue)
        group = request.group.name
        self._checks.group(group)
        if request.offset < 0:
            raise _illegal_offset(request.offset)
        self._offsets.check_commit(group, topic, queue_id)
        self._offsets.commit(group, topic, queue_id, request.offset)
        return pb.UpdateOffsetResponse(status=_OK)

    def get_offset(self, _caller: GrpcCaller, request: pb.GetOffsetRequest) -> pb.GetOffsetResponse:
        """Answer the offset that a group reads next."""
        topic, queue_id = self._queue(request.message_queue)
        group = request.group.name
        check_grpc_group(group)
        offset = self._offsets.progress(group, topic, queue_id)
        if offset is None or offset < 0:
            raise GrpcRefused(
                GrpcCode.OFFSET_NOT_FOUND,
                f"consumer group {group} has no progress in queue {queue_id} of topic {topic} yet",
            )
        return pb.GetOffsetResponse(status=_OK, offset=offset)

    def query_offset(self, _caller: GrpcCaller, request: pb.QueryOffsetRequest) -> pb.QueryOffsetResponse:
        """Answer where a queue begins, where it ends, or which offset was stored at a time."""
        topic, queue_id = self._queue(request.message_queue)
        policy = request.query_offset_policy
        if policy == OffsetPolicy.BEGINNING:
            offset = self._store.min_offset(topic, queue_id)
        elif policy == OffsetPolicy.END:
            offset = self._store.readable_end(topic, queue_id)
        elif policy == OffsetPolicy.TIMESTAMP and request.HasField("timestamp"):
            offset = self._store.offset_by_time(topic, queue_id, ms_of(request.timestamp))
        else:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST,
                f"policy {policy}: ask for BEGINNING, END, or TIMESTAMP with a timestamp",
            )
        return pb.QueryOffsetResponse(status=_OK, offset=max(offset, 0))

    def _queue(self, queue: pb.MessageQueue) -> tuple[str, int]:
        """Return the topic and the id of a queue that is here."""
        topic = queue.topic.name
        check_grpc_topic(topic)
        config = self._checks.readable_topic(topic)
        if not 0 <= queue.id < config.read_queue_nums:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST,
                f"topic {topic} has no queue {queue.id}; it has queues 0 to {config.read_queue_nums - 1}",
            )
        return topic, queue.id

    def _read(self, topic: str, queue_id: int, request: pb.PullMessageRequest, wanted: PopFilter) -> Got:
        return self._store.get(
            topic,
            queue_id,
            request.offset,
            count_max=min(request.batch_size, COUNT_MAX),
            wants=wanted.tags,
            matches=wanted.matches,
        )

    async def _wait(self, topic: str, queue_id: int, offset: int, wanted: PopFilter, wait_ms: int) -> None:
        """Return when the queue has a message that is wanted, or the time is up."""
        arrivals = self._arrivals
        if not wait_ms or arrivals.is_over or not arrivals.has_room(self._settings.broker.held_pulls_max):
            return
        grown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        matches = None if wanted.matches is None else partial(self._matches_at, topic, queue_id, wanted)
        held = HeldPull(offset, self._clock.now_ms() + wait_ms, wanted.tags, partial(_wake, grown), matches)
        arrivals.hold(topic, queue_id, held)
        try:
            await asyncio.wait_for(grown, wait_ms / 1000)
        except TimeoutError:
            return
        finally:
            arrivals.drop(topic, queue_id, held)

    def _matches_at(self, topic: str, queue_id: int, wanted: PopFilter, offset: int) -> bool:
        queue = self._store.queue(topic, queue_id)
        place = None if queue is None else queue.place(offset)
        record = None if place is None else self._store.log.read(*place)
        return record is None or wanted.matches is None or wanted.matches(memoryview(record))


def _check_pull(request: pb.PullMessageRequest) -> None:
    if request.offset < 0:
        raise _illegal_offset(request.offset)
    if request.batch_size <= 0:
        raise GrpcRefused(
            GrpcCode.BAD_REQUEST, f"the batch size is {request.batch_size}; ask for 1 to {COUNT_MAX}"
        )


def _wake(grown: "asyncio.Future[None]") -> None:
    if not grown.done():
        grown.set_result(None)


def _is_at_end(got: Got, offset: int) -> bool:
    """Return whether nothing can be read before the queue grows."""
    if got.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_FOUND_NULL):
        return True
    return got.status in _EMPTY_QUEUE and offset == 0


def _illegal_offset(offset: int) -> GrpcRefused:
    return GrpcRefused(GrpcCode.ILLEGAL_OFFSET, f"{offset} is no offset; the first one is 0")


_OK: Final = pb.Status(code=GrpcCode.OK, message=GrpcCode.OK.name)
