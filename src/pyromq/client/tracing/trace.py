"""Traces of messages: hooks that note what becomes of them, and who sends the notes to the trace topic.

    send / listener ─► hook ─► Tracer.add ─► a bounded queue ─► thread ─► a producer of its own
                                    └ full: dropped, and counted

A traced send pays for one object in a queue. The thread encodes and sends, at the latest HOLD_S after the
first note, or as soon as there are enough for a message. It is started by the first note, in each process of
its own. What cannot be sent is lost with a warning: a trace is never in the way of what it traces.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from pyromq.client.hooks import ConsumeHook, Consuming, Ending, SendHook, Sending
from pyromq.client.identity import new_identity
from pyromq.client.namespaces import unwrap
from pyromq.client.tracing.trace_format import (
    DEFAULT_REGION,
    ConsumeReturn,
    MessageKind,
    TraceEntry,
    TraceType,
    encode_entry,
    keys_of,
)
from pyromq.clock import SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.errors import PyroError
from pyromq.model import Message, ReceivedMessage, SendStatus
from pyromq.system_names import TRACE
from pyromq.wire import properties as names

if TYPE_CHECKING:
    from pyromq.client.sync.producer import Producer

_log = logging.getLogger("pyromq.client")

#: Notes that may wait; RocketMQ's client has room for 1,024.
WAITING_MAX: Final = 16_384
WAITING_MANY: Final = 4_096
#: Characters from which on a trace message is sent, and bytes that it may have.
MESSAGE_CHARACTERS: Final = 118_000
MESSAGE_BYTES_MAX: Final = 4 * 128_000
#: Characters of keys in one message: they travel in its properties, which have 32,767 bytes.
KEY_CHARACTERS_MAX: Final = 24_000
HOLD_S: Final = 0.5
SEND_TIMEOUT_MS: Final = 5_000
#: Seconds between complaints that traces cannot be sent.
COMPLAIN_S: Final = 60.0
PRODUCE: Final = "PRODUCE"
CONSUME: Final = "CONSUME"
GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
INSTANCE_PREFIX: Final = "PID_CLIENT_INNER_TRACE_PRODUCER"

_numbers = count(1)


class Tracer:
    """Takes notes of one client, and sends them. `role` is PRODUCE or CONSUME, as in RocketMQ's names."""

    def __init__(self, group: str, name_server: str | None, settings: ClientSettings, *, role: str) -> None:
        self.topic = settings.customized_trace_topic or TRACE
        self.namespace = settings.namespace
        self.dropped_count = 0
        self._group = group
        self._name_server = name_server
        self._role = role
        self._settings = settings
        self._waiting: deque[TraceEntry] = deque()
        #: By process: threads do not survive a fork.
        self._threads: dict[int, threading.Thread] = {}
        self._wake = threading.Event()
        self._is_closed = False
        self._complained_at = float("-inf")

    def add(self, entry: TraceEntry) -> None:
        """Take a note; never waits, and never fails."""
        if len(self._waiting) >= WAITING_MAX or self._is_closed:
            self.dropped_count += 1
            return
        if os.getpid() not in self._threads:
            self._begin()
        self._waiting.append(entry)
        if len(self._waiting) == WAITING_MANY:
            self._wake.set()

    def close(self) -> None:
        """Send what waits, and end."""
        self._is_closed = True
        thread = self._threads.get(os.getpid())
        if thread is not None:
            self._wake.set()
            thread.join()

    def _begin(self) -> None:
        if self._threads:
            # What waits here was noted by the parent, which sends it; its event may be held by nobody.
            self._waiting, self._wake = deque(), threading.Event()
        thread = threading.Thread(target=self._run, name=f"pyromq-trace {self._group}", daemon=True)
        # No lock: this alone is atomic, and a lock might be held by another thread at a fork.
        if self._threads.setdefault(os.getpid(), thread) is thread:
            thread.start()

    def _run(self) -> None:
        try:
            producer = self._new_producer()
        except PyroError as error:
            self._is_closed = True
            self._complain(len(self._waiting), error)
            return
        try:
            while not self._is_closed:
                self._wake.wait(HOLD_S)
                if not self._is_closed:
                    self._wake.clear()
                self._send_waiting(producer)
            self._send_waiting(producer)
        finally:
            producer.close()

    def _send_waiting(self, producer: "Producer") -> None:
        for entries, text in self._messages():
            message = Message(self.topic, text.encode(), keys=keys_of(entries))
            try:
                producer.send(message, timeout_ms=SEND_TIMEOUT_MS)
            except PyroError as error:
                self._complain(len(entries), error)

    def _messages(self) -> Iterator[tuple[list[TraceEntry], str]]:
        """Yield what waits, in parts that one message has room for."""
        entries: list[TraceEntry] = []
        texts: list[str] = []
        length = key_length = 0
        while self._waiting:
            entry = self._waiting.popleft()
            text = encode_entry(entry)
            entries.append(entry)
            texts.append(text)
            length += len(text)
            key_length += len(entry.message_id) + len(entry.keys or "") + 2
            if length >= MESSAGE_CHARACTERS or key_length >= KEY_CHARACTERS_MAX:
                yield entries, "".join(texts)
                entries, texts, length, key_length = [], [], 0, 0
        if entries:
            yield entries, "".join(texts)

    def _complain(self, lost_count: int, error: PyroError) -> None:
        self.dropped_count += lost_count
        now = time.monotonic()
        if now - self._complained_at >= COMPLAIN_S:
            self._complained_at = now
            _log.warning(
                "traces of %s cannot be sent to topic %s, %d are lost so far: %s",
                self._group,
                self.topic,
                self.dropped_count,
                error,
            )

    def _new_producer(self) -> "Producer":
        # Only now: the producer's module needs this one.
        from pyromq.client.sync.producer import Producer

        number = next(_numbers)
        settings = replace(
            self._settings,
            enable_msg_trace=False,
            instance_name=f"{INSTANCE_PREFIX}_{os.getpid()}_{number}",
            send_msg_timeout=SEND_TIMEOUT_MS,
            max_message_size=MESSAGE_BYTES_MAX,
            vip_channel_enabled=False,
            # The trace topic is everybody's, whatever their namespace.
            namespace="",
        )
        group = f"{GROUP_PREFIX}-{self._group[:200]}-{self._role}-{number}"
        producer = Producer(group, self._name_server, settings)
        producer.start()
        return producer


def tracer_of(group: str, name_server: str | None, settings: ClientSettings, *, role: str) -> Tracer | None:
    """Return who takes a client's notes, None where no traces are wanted."""
    return Tracer(group, name_server, settings, role=role) if settings.enable_msg_trace else None


def traced(hooks: Sequence[SendHook], tracer: Tracer | None) -> tuple[SendHook, ...]:
    """Return a producer's hooks, with the one that traces where that is wanted."""
    return (*hooks, TraceSends(tracer, SystemClock().now_ms)) if tracer is not None else tuple(hooks)


def traced_consumer(
    hooks: Sequence[ConsumeHook], tracer: Tracer | None, settings: ClientSettings
) -> tuple[ConsumeHook, ...]:
    """Return a consumer's hooks, with the one that traces where that is wanted."""
    if tracer is None:
        return tuple(hooks)
    clock, ids = SystemClock(), new_identity(settings).unique_ids
    tracing = TraceConsumes(
        tracer,
        clock.now_ms,
        lambda: ids.next(clock.now_ms()),
        timeout_ms=settings.consume_timeout * 60_000,
    )
    return (*hooks, tracing)


class TraceSends(SendHook):
    """Notes sends that were stored, and ends of transactions."""

    def __init__(self, tracer: Tracer, now_ms: Callable[[], int]) -> None:
        self._tracer = tracer
        self._now_ms = now_ms

    def before(self, sending: Sending) -> None:
        """Note when it began."""
        sending.notes[_BEGAN] = self._now_ms()

    def after(self, sending: Sending) -> None:
        """Note where it went; a failure leaves no trace, as with RocketMQ's client."""
        result, began_ms, tracer = sending.result, sending.notes.get(_BEGAN), self._tracer
        if result is None or not isinstance(began_ms, int) or sending.topic.startswith(tracer.topic):
            return
        if not result.is_trace_on:
            return
        message = sending.message
        keys, tags = (None, None) if sending.is_batch else (" ".join(message.key_list) or None, message.tags)
        ids = result.message_id.split(",")
        offset_ids = result.offset_message_id.split(",")
        took_ms = self._now_ms() - began_ms
        for index, message_id in enumerate(ids):
            tracer.add(
                TraceEntry(
                    type=TraceType.PUB,
                    at_ms=began_ms,
                    region=result.region_id,
                    group=unwrap(tracer.namespace, sending.group),
                    topic=unwrap(tracer.namespace, sending.topic),
                    message_id=message_id,
                    tags=tags,
                    keys=keys,
                    broker_address=sending.broker_address,
                    # Of a batch only the first message is known here.
                    body_bytes=0 if index else len(message.body),
                    took_ms=took_ms,
                    kind=sending.kind,
                    offset_message_id=offset_ids[index] if index < len(offset_ids) else None,
                    is_success=result.status is SendStatus.SEND_OK,
                )
            )

    def ended(self, ending: Ending) -> None:
        """Note how a transaction ended."""
        tracer, message = self._tracer, ending.message
        keys = message.keys if isinstance(message, ReceivedMessage) else message.key_list
        tracer.add(
            TraceEntry(
                type=TraceType.END_TRANSACTION,
                at_ms=self._now_ms(),
                region=message.properties.get(names.MSG_REGION) or DEFAULT_REGION,
                group=unwrap(tracer.namespace, ending.group),
                topic=unwrap(tracer.namespace, message.topic),
                message_id=ending.message_id,
                tags=message.tags,
                keys=" ".join(keys) or None,
                broker_address=ending.broker_address,
                kind=MessageKind.COMMIT,
                transaction_id=ending.transaction_id,
                transaction_state=ending.state.value,
                was_asked=ending.was_asked,
            )
        )


class TraceConsumes(ConsumeHook):
    """Notes what a listener gets, and what came of it. `new_id` names one call of it."""

    def __init__(
        self, tracer: Tracer, now_ms: Callable[[], int], new_id: Callable[[], str], *, timeout_ms: int
    ) -> None:
        self._tracer = tracer
        self._now_ms = now_ms
        self._new_id = new_id
        self._timeout_ms = timeout_ms

    def before(self, consuming: Consuming) -> None:
        """Note that the listener gets messages."""
        traced = [one for one in consuming.messages if one.properties.get(names.TRACE_ON) != "false"]
        if not traced or traced[0].topic.startswith(self._tracer.topic):
            return
        entry = TraceEntry(
            type=TraceType.SUB_BEFORE,
            message_id="",
            at_ms=self._now_ms(),
            # RocketMQ takes the last one's for all.
            region=traced[-1].properties.get(names.MSG_REGION),
            group=unwrap(self._tracer.namespace, consuming.group),
            request_id=self._new_id(),
        )
        consuming.notes[_BEGAN] = entry, traced
        for message in traced:
            self._tracer.add(
                replace(
                    entry,
                    message_id=message.message_id,
                    retries=message.reconsume_times,
                    keys=" ".join(message.keys) or None,
                )
            )

    def after(self, consuming: Consuming) -> None:
        """Note what came of it."""
        noted = consuming.notes.get(_BEGAN)
        if not isinstance(noted, tuple):
            return
        before, traced = noted
        spent_ms = self._now_ms() - before.at_ms
        entry = replace(
            before,
            type=TraceType.SUB_AFTER,
            took_ms=spent_ms // len(consuming.messages),
            is_success=bool(consuming.is_success),
            how_it_ended=self._how(consuming, spent_ms),
            at_ms=self._now_ms(),
        )
        for message in traced:
            self._tracer.add(
                replace(entry, message_id=message.message_id, keys=" ".join(message.keys) or None)
            )

    def _how(self, consuming: Consuming, spent_ms: int) -> ConsumeReturn:
        if consuming.error is not None:
            return ConsumeReturn.EXCEPTION
        if spent_ms >= self._timeout_ms:
            return ConsumeReturn.TIME_OUT
        return ConsumeReturn.SUCCESS if consuming.is_success else ConsumeReturn.FAILED


_BEGAN: Final = "pyromq.trace"
