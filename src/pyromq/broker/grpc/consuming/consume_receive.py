"""ReceiveMessage: messages are popped for a client of gRPC, and sent to it one by one.

    checks ─► pop, held until there is something ─┬► found     status OK, messages, delivery timestamp
                                                  └► nothing   status MESSAGE_NOT_FOUND, delivery timestamp

A refused request is answered by a status and the timestamp too (`grpc_table.py`). The queue that a client
names is not looked at, only its topic: as RocketMQ's proxy does, all queues are read, and SDKs rely on it.

A client that cancels while its receive is held gets nothing popped. One that goes away before it was sent
everything has it given back: others get those messages a second later.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from pyromq.broker.delivery.sql_filters import FilterTable
from pyromq.broker.grpc.consuming.consume_checks import ConsumeChecks
from pyromq.broker.grpc.consuming.consume_filters import pop_filter
from pyromq.broker.grpc.consuming.consume_times import ReceiveWaits, received_invisible_ms
from pyromq.broker.grpc.consuming.receive_words import ReceiveWords
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.pop.pop_asks import COUNT_MAX, Done, PopAsk, Popped, PopStatus
from pyromq.broker.pop.pop_door import Pop
from pyromq.clock import Clock
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.proto_numbers import FilterType
from pyromq.wire.grpc.receive_answers import (
    RECEIVED_OK,
    ReceivedFrames,
    delivered_at,
    framed,
    received_status,
)
from pyromq.wire.grpc.shown_messages import shown_topic

_FOUND: Final = framed(RECEIVED_OK)
_NOT_FOUND: Final = {
    status: framed(received_status(code, text))
    for status, code, text in (
        (PopStatus.NOTHING, GrpcCode.MESSAGE_NOT_FOUND, "no new message"),
        (PopStatus.NO_MATCH, GrpcCode.MESSAGE_NOT_FOUND, "no match message"),
        (
            PopStatus.HELD_FULL,
            GrpcCode.TOO_MANY_REQUESTS,
            "too many receives wait for messages; wait, and receive again",
        ),
        (
            PopStatus.IN_FLIGHT_FULL,
            GrpcCode.TOO_MANY_REQUESTS,
            "too many messages are in flight; acknowledge some, or wait until they are visible again",
        ),
    )
}
#: So many bytes of messages are written without asking whether the client takes them.
_UNASKED_BYTES: Final = 64 * 1024
#: Asks that are kept, of all groups and topics.
_ASKS_MAX: Final = 1_024


class ReceiveHandlers:
    """Answers ReceiveMessage."""

    def __init__(
        self,
        pop: Pop,
        checks: ConsumeChecks,
        filters: FilterTable,
        waits: ReceiveWaits,
        *,
        settings: GrpcSettings,
        clock: Clock,
        broker_name: str,
        body_bytes_max: int,
    ) -> None:
        self._pop = pop
        self._checks = checks
        self._filters = filters
        self._waits = waits
        self._settings = settings
        self._clock = clock
        self._broker_name = broker_name
        self._frames = ReceivedFrames(body_bytes_max)
        #: What was asked for with the same words, while topics, groups and settings are the same.
        self._asks: dict[int, tuple[ReceiveWords, PopAsk]] = {}
        self._asks_for = (-1, -1, -1)
        #: Told of what was read of each queue: group, topic, how many messages, and their bytes.
        self.on_read: Callable[[str, str, int, int], None] = lambda *_: None

    def receive(self, call: GrpcCall, caller: GrpcCaller, words: ReceiveWords) -> Awaitable[None] | None:
        """Send messages, or that there are none; None: all is sent."""
        ask, wait_ms = self._ask(call, caller, words)
        popping = self._pop.pop(ask, wait_ms)
        if isinstance(popping, Done):
            return self._send(call, ask, popping.value)
        return self._send_later(call, ask, popping)

    def end(self) -> bytes:
        """Return the last message of a stream."""
        return delivered_at(self._clock.now_ms())

    def _ask(self, call: GrpcCall, caller: GrpcCaller, words: ReceiveWords) -> tuple[PopAsk, int]:
        """Return what to pop, and how long to wait for it; raise GrpcRefused when it may not be."""
        words.check_names()
        wait_ms = self._waits.polling_ms(call, caller, words.polling_ms)
        revision = self._checks.revision
        if revision != self._asks_for:
            self._asks.clear()
            self._asks_for = revision
        kept = self._asks.get(id(words))
        if kept is not None and kept[0] is words:
            return kept[1], wait_ms
        ask = self._new_ask(caller, words)
        is_plain = words.attempt_id is None and not words.is_renewed and words.filter_type != FilterType.SQL
        if is_plain and revision == self._checks.revision:
            if len(self._asks) >= _ASKS_MAX:
                self._asks.clear()
            # With its words: while they are kept, no others have their number.
            self._asks[id(words)] = words, ask
        return ask, wait_ms

    def _new_ask(self, caller: GrpcCaller, words: ReceiveWords) -> PopAsk:
        """Return what to pop, after a look at everything; raise GrpcRefused when it may not be."""
        invisible_ms = received_invisible_ms(self._settings, words.invisible_ms, is_renewed=words.is_renewed)
        if words.batch_size <= 0:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST, f"the batch size is {words.batch_size}; ask for 1 to {COUNT_MAX}"
            )
        wanted = pop_filter(self._filters, words.filter_type, words.expression)
        self._checks.readable_topic(words.topic)
        config = self._checks.consuming_group(words.group, words.topic)
        return PopAsk(
            words.group,
            words.topic,
            count_max=min(words.batch_size, COUNT_MAX),
            invisible_ms=invisible_ms,
            wanted=wanted,
            is_fifo=bool(config.consume_message_orderly),
            attempt_id=words.attempt_id,
            renewed_for=caller.client_id if words.is_renewed else None,
            buries=True,
            tells_rest=False,
        )

    async def _send_later(self, call: GrpcCall, ask: PopAsk, popping: Awaitable[Popped]) -> None:
        """Wait for messages, and send them."""
        rest = self._send(call, ask, await popping)
        if rest is not None:
            await rest

    def _send(self, call: GrpcCall, ask: PopAsk, popped: Popped) -> Awaitable[None] | None:
        """Send what the buffers of any connection take; the rest is sent as fast as the client takes it."""
        if call.is_over:
            self._give_back(popped, ask.group)
            return None
        size, chunks = 0, self._chunks(ask, popped)
        for messages in chunks:
            call.send_framed(messages)
            size += len(messages)
            if size > _UNASKED_BYTES:
                return self._send_rest(call, ask, popped, chunks)
        return None

    async def _send_rest(self, call: GrpcCall, ask: PopAsk, popped: Popped, chunks: Iterator[bytes]) -> None:
        is_sent = False
        try:
            await call.room()
            for messages in chunks:
                call.send_framed(messages)
                await call.room()
            is_sent = not call.is_over
        finally:
            if not is_sent:
                self._give_back(popped, ask.group)

    def _give_back(self, popped: Popped, group: str) -> None:
        if popped.parts:
            self._pop.give_back(popped, group)

    def _chunks(self, ask: PopAsk, popped: Popped) -> Iterator[bytes]:
        """Yield the messages of the stream as gRPC frames them, some at a time."""
        if popped.status is PopStatus.FOUND:
            yield _FOUND
            topic = shown_topic(ask.topic)
            for part in popped.parts:
                head = (
                    f"{part.start_offset} {popped.popped_at_ms} {popped.invisible_ms} "
                    f"{popped.revive_queue_id} {part.mark} {self._broker_name} {part.queue_id} "
                )
                yield from self._frames.of(part, head.encode(), topic)
                self.on_read(ask.group, part.real_topic, len(part.sizes), len(part.body))
        else:
            yield _NOT_FOUND[popped.status]
        yield framed(self.end())
