"""OpenTelemetry spans of sends and of listeners; `pip install pyromq[otel]`.

    from pyromq.otel import SpansOfConsumes, SpansOfSends

    with Producer("orders-service", hooks=[SpansOfSends()]) as producer: ...
    with PushConsumer("billing", listener=handle, hooks=[SpansOfConsumes()]) as consumer: ...

Every try of a send is a PRODUCER span, every call of a listener a CONSUMER span. The context travels in the
message's properties (`traceparent`, `tracestate`, `baggage`, as the global propagator writes them), so the
second is a child of the first; Java's OpenTelemetry agent writes and reads the same. A listener that gets
several messages has links to their sends instead of one parent. While it runs, its span is the current one.

Names of attributes are those of OpenTelemetry's conventions for messaging. A batch has one span for its send,
and its messages carry no context: they are packed before.
"""

from collections.abc import Mapping
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from pyromq.client.hooks import ConsumeHook, Consuming, Ending, SendHook, Sending
from pyromq.model import ReceivedMessage

_SPAN: Final = "pyromq.otel.span"
_TOKEN: Final = "pyromq.otel.token"
_SYSTEM: Final = {"messaging.system": "rocketmq"}
#: What separates properties on the wire; a value with one of them would become two.
_SEPARATORS: Final = ("\x01", "\x02")


class SpansOfSends(SendHook):
    """A span for every try of a send. `tracer` is the global provider's unless it is given."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("pyromq")

    def before(self, sending: Sending) -> None:
        """Begin the span, and let its context travel with the message."""
        message = sending.message
        span = self._tracer.start_span(
            f"send {sending.topic}",
            kind=SpanKind.PRODUCER,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "send",
                "messaging.operation.name": "send",
                "messaging.destination.name": sending.topic,
                "messaging.destination.partition.id": str(sending.queue.queue_id),
                "messaging.rocketmq.client_group": sending.group,
                "messaging.message.body.size": len(message.body),
                "server.address": sending.broker_address,
                **_words(message.tags, message.key_list),
            },
        )
        sending.notes[_SPAN] = span
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        sending.properties.update(
            (name, value)
            for name, value in carrier.items()
            # A message that is sent on has the context of the one before it; its own is left as it is.
            if name not in message.properties and not any(sign in value for sign in _SEPARATORS)
        )

    def after(self, sending: Sending) -> None:
        """End the span, with what came of it."""
        span = sending.notes.get(_SPAN)
        if not isinstance(span, Span):
            return
        if sending.result is not None:
            span.set_attribute("messaging.message.id", sending.result.message_id)
            span.set_attribute("messaging.rocketmq.message.offset_id", sending.result.offset_message_id)
            span.set_attribute("messaging.rocketmq.send_status", sending.result.status.value)
        _end(span, sending.error)

    def ended(self, ending: Ending) -> None:
        """Make a span of the end of a transaction; it is over at once, no answer comes."""
        span = self._tracer.start_span(
            f"settle {ending.message.topic}",
            kind=SpanKind.CLIENT,
            context=propagate.extract(_carrier(ending.message.properties)),
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "settle",
                "messaging.operation.name": ending.state.value,
                "messaging.destination.name": ending.message.topic,
                "messaging.message.id": ending.message_id,
                "messaging.rocketmq.client_group": ending.group,
                "server.address": ending.broker_address,
            },
        )
        span.end()


class SpansOfConsumes(ConsumeHook):
    """A span for every call of a listener. `tracer` is the global provider's unless it is given."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("pyromq")

    def before(self, consuming: Consuming) -> None:
        """Begin the span, as a child of the send, and make it the current one."""
        messages = consuming.messages
        parent: contexts.Context | None = None
        links: list[Link] = []
        if len(messages) == 1:
            parent = _parent(messages[0])
        else:
            links = [link for message in messages if (link := _link(message)) is not None]
        first = messages[0]
        span = self._tracer.start_span(
            f"process {first.topic}",
            kind=SpanKind.CONSUMER,
            context=parent,
            links=links,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "process",
                "messaging.operation.name": "process",
                "messaging.destination.name": first.topic,
                "messaging.destination.partition.id": str(consuming.queue.queue_id),
                "messaging.consumer.group.name": consuming.group,
                "messaging.batch.message_count": len(messages),
                "messaging.message.id": first.message_id,
                "messaging.message.body.size": len(first.body),
                "messaging.rocketmq.message.reconsume_times": first.reconsume_times,
                **_words(first.tags, first.keys),
            },
        )
        consuming.notes[_SPAN] = span
        consuming.notes[_TOKEN] = contexts.attach(trace.set_span_in_context(span, parent))

    def after(self, consuming: Consuming) -> None:
        """End the span, with what the listener said or raised."""
        token, span = consuming.notes.get(_TOKEN), consuming.notes.get(_SPAN)
        if not isinstance(span, Span):
            return
        contexts.detach(token)  # type: ignore[arg-type]
        if consuming.error is None and not consuming.is_success:
            span.set_status(Status(StatusCode.ERROR, "the listener wants the messages again"))
        _end(span, consuming.error)


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


def _words(tags: str | None, keys: list[str]) -> dict[str, str | list[str]]:
    words: dict[str, str | list[str]] = {}
    if tags:
        words["messaging.rocketmq.message.tag"] = tags
    if keys:
        words["messaging.rocketmq.message.keys"] = keys
    return words


def _carrier(properties: Mapping[str, str]) -> dict[str, str]:
    return dict(properties)


def _parent(message: ReceivedMessage) -> contexts.Context:
    return propagate.extract(_carrier(message.properties))


def _link(message: ReceivedMessage) -> Link | None:
    found = trace.get_current_span(_parent(message)).get_span_context()
    return Link(found) if found.is_valid else None
