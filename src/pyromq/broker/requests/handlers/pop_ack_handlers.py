"""Acknowledgements of popped messages (200051, 200151), and changes of their invisible time (200053).

As with RocketMQ, who acknowledges too late is not told: the message comes again. A change by a handle that is
over is refused.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.pop.pop_asks import AckResult, Done
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.requests.handlers.pop_checks import PopChecks
from pyromq.broker.requests.handlers.pop_handlers import UNSAID, check_invisible
from pyromq.codes import ResponseCode
from pyromq.errors import BodyError, MessageIllegal, Refused
from pyromq.net.routes import Answer, Request
from pyromq.wire.bodies.pop_bodies import BatchAckPart, decode_batch_ack
from pyromq.wire.headers.pop_headers import AckMessage, ChangeMessageInvisibleTime
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.receipt_handle import ReceiptHandle, decode_receipt_handle, real_topic_of

Handled = Answer | Awaitable[Answer]

#: Messages of one request; Apache's proxy sends some dozens.
ACKED_MAX: Final = 65_536
NOT_CHANGED: Final = dict.fromkeys(java_map_order(("popTime", "invisibleTime", "reviveQid")), "0")


class PopAckHandlers:
    """Answers 200051, 200053 and 200151."""

    def __init__(self, pop: Pop, offsets: OffsetTable, checks: PopChecks, *, broker_name: str) -> None:
        self._offsets = offsets
        self._checks = checks
        self._broker_name = broker_name
        self.pop = pop
        #: Told of each queue of which a message was acknowledged at once: group, topic, queue.
        self.learn: Callable[[str, str, int], None] | None = None

    def ack(self, request: Request[AckMessage]) -> Handled:
        """End a message; whoever comes too late is not told."""
        header = request.header
        self._checks.check_message(
            header.topic, header.queue_id, header.offset, request.link.peer, may_be_next=True
        )
        handle = _handle(header)
        results = self.pop.ack(header.consumer_group, header.topic, [handle])
        if isinstance(results, Done):
            if self.learn is not None and not handle.is_fifo and results.value[0] is AckResult.OK:
                self.learn(header.consumer_group, header.topic, header.queue_id)
            return self._acked(request, results.value[0], handle)
        return self._acked_later(request, results, handle)

    def _acked(self, request: Request[AckMessage], result: AckResult, handle: ReceiptHandle) -> Answer:
        if result is AckResult.UNKNOWN and handle.is_fifo:
            header = request.header
            group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
            progress = self._offsets.progress(group, topic, queue_id)
            old = -1 if progress is None else progress
            raise MessageIllegal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{old}, commit:{handle.offset}, "
                f"next:-1, /{request.link.peer}",
            )
        return Answer()

    async def _acked_later(
        self, request: Request[AckMessage], results: Awaitable[Sequence[AckResult]], handle: ReceiptHandle
    ) -> Answer:
        return self._acked(request, (await results)[0], handle)

    def ack_many(self, request: Request[None]) -> Handled:
        """End messages of several pops and queues; what is not there is passed over."""
        acks = decode_batch_ack(request.body).acks if request.body else []
        if not acks:
            raise Refused(ResponseCode.NO_MESSAGE, "the request acknowledges nothing: acks is empty")
        bits = [part.bits for part in acks]
        count = sum(each.bit_count() for each in bits)
        if count > ACKED_MAX:
            raise BodyError(f"a request acknowledges at most {ACKED_MAX} messages, not {count}")
        waits = []
        for part, each in zip(acks, bits, strict=True):
            handles = list(self._handles(part, each))
            if handles:
                results = self.pop.ack(part.group, part.topic, handles)
                if not isinstance(results, Done):
                    waits.append(results)
        return _all_acked(waits) if waits else Answer()

    def _handles(self, part: BatchAckPart, bits: int) -> Iterator[ReceiptHandle]:
        mark = int(part.mark) if part.mark in ("0", "1", "2") else 0
        topic = real_topic_of(part.group, part.topic, mark)
        least, end = self._checks.ends(topic, part.queue_id)
        # The lowest bit first.
        places = bin(bits)[:1:-1]
        place = places.find("1")
        while place >= 0:
            offset = part.start_offset + place
            if least <= offset < end:
                yield ReceiptHandle(
                    part.start_offset,
                    part.popped_at_ms,
                    part.invisible_ms,
                    part.revive_queue_id,
                    mark,
                    self._broker_name,
                    part.queue_id,
                    offset,
                )
            place = places.find("1", place + 1)

    def change(self, request: Request[ChangeMessageInvisibleTime]) -> Handled:
        """Let a message be invisible for so long from now on, and answer its new handle's words."""
        header = request.header
        self._checks.check_message(
            header.topic, header.queue_id, header.offset, request.link.peer, may_be_next=False
        )
        check_invisible(header.invisible_time)
        changed = self.pop.change(header.consumer_group, header.topic, _handle(header), header.invisible_time)
        return _changed(changed.value) if isinstance(changed, Done) else _changed_later(changed)


def _handle(header: AckMessage | ChangeMessageInvisibleTime) -> ReceiptHandle:
    """Return the handle of a request; its fields say which message of the pop is meant."""
    handle = decode_receipt_handle(header.extra_info)
    if handle.offset == header.offset and handle.queue_id == header.queue_id:
        return handle
    return replace(handle, queue_id=header.queue_id, offset=header.offset)


async def _all_acked(waits: Sequence[Awaitable[object]]) -> Answer:
    for each in waits:
        await each
    return Answer()


def _changed(changed: ReceiptHandle | AckResult) -> Answer:
    if not isinstance(changed, ReceiptHandle):
        raise Refused(
            ResponseCode.NO_MESSAGE,
            "the message is not in flight by this handle: it was acknowledged, changed, or is visible again",
        )
    values = {
        "popTime": changed.popped_at_ms,
        "invisibleTime": changed.invisible_ms,
        "reviveQid": changed.revive_queue_id,
    }
    return Answer(remark=UNSAID, ext={name: str(values[name]) for name in NOT_CHANGED})


async def _changed_later(changed: Awaitable[ReceiptHandle | AckResult]) -> Answer:
    return _changed(await changed)
