"""Spans of sends and listeners, seen by OpenTelemetry's own exporter."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

import pyromq
from pyromq import Message, aio
from pyromq.errors import PyroError
from pyromq.model import ConsumeFrom, ReceivedMessage, TransactionState
from pyromq.otel import SpansOfConsumes, SpansOfSends
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test")


def spans(exporter: InMemorySpanExporter, kind: SpanKind) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.kind == kind]


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    number: int = span.context.span_id
    return number


async def test_a_listener_is_the_child_of_the_send(
    cluster: Cluster, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    inner: list[int] = []

    async def listener(_message: ReceivedMessage) -> None:
        inner.append(trace.get_current_span().get_span_context().span_id)

    async with aio.Producer("senders", cluster.namesrv_address, hooks=[SpansOfSends(tracer)]) as producer:
        sent = await producer.send(
            Message("orders", b"x", tags="paid", keys=["42"], properties={"city": "Oslo"})
        )
    consumer = aio.PushConsumer(
        "readers",
        cluster.namesrv_address,
        listener=listener,
        hooks=[SpansOfConsumes(tracer)],
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )
    consumer.subscribe("orders")
    async with consumer:
        await aeventually(lambda: spans(exporter, SpanKind.CONSUMER), timeout_s=30)

    (send,) = spans(exporter, SpanKind.PRODUCER)
    (process,) = spans(exporter, SpanKind.CONSUMER)
    assert (send.name, process.name) == ("send orders", "process orders")
    assert process.parent is not None
    assert process.parent.span_id == id_of(send)
    assert inner == [id_of(process)]
    assert send.attributes is not None
    assert process.attributes is not None
    assert (
        send.attributes["messaging.message.id"]
        == sent.message_id
        == process.attributes["messaging.message.id"]
    )
    assert process.attributes["messaging.rocketmq.message.keys"] == ("42",)
    assert process.attributes["messaging.consumer.group.name"] == "readers"
    assert process.status.status_code == StatusCode.UNSET


async def test_the_context_travels_beside_the_applications_own_properties(
    cluster: Cluster, tracer: Tracer
) -> None:
    async with aio.Producer("senders", cluster.namesrv_address, hooks=[SpansOfSends(tracer)]) as producer:
        sent = await producer.send(Message("orders", b"x", properties={"city": "Oslo"}))
    async with aio.Admin(cluster.namesrv_address) as admin:
        message = await admin.view_message(sent.offset_message_id)

    assert message.properties["city"] == "Oslo"
    assert message.properties["traceparent"].startswith("00-")


async def test_a_listener_that_fails_has_a_span_that_says_so(
    cluster: Cluster, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    async def listener(_message: ReceivedMessage) -> None:
        raise ValueError("no money")

    async with aio.Producer("senders", cluster.namesrv_address) as producer:
        await producer.send(Message("orders", b"x"))
    consumer = aio.PushConsumer(
        "readers",
        cluster.namesrv_address,
        listener=listener,
        hooks=[SpansOfConsumes(tracer)],
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )
    consumer.subscribe("orders")
    async with consumer:
        await aeventually(lambda: spans(exporter, SpanKind.CONSUMER), timeout_s=30)

    process = spans(exporter, SpanKind.CONSUMER)[0]
    assert process.parent is None
    assert (process.status.status_code, process.status.description) == (StatusCode.ERROR, "no money")


async def test_a_batch_listener_has_links_to_the_sends(
    cluster: Cluster, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    async with aio.Producer("senders", cluster.namesrv_address, hooks=[SpansOfSends(tracer)]) as producer:
        queue = (await producer.queues("orders"))[0]
        for _ in range(2):
            await producer.send(Message("orders", b"x"), queue=queue)
    consumer = aio.PushConsumer(
        "readers",
        cluster.namesrv_address,
        batch_listener=lambda _messages: None,
        hooks=[SpansOfConsumes(tracer)],
        consume_from=ConsumeFrom.FIRST_OFFSET,
        consume_message_batch_max_size=2,
    )
    consumer.subscribe("orders")
    async with consumer:
        await aeventually(lambda: spans(exporter, SpanKind.CONSUMER), timeout_s=30)

    (process,) = spans(exporter, SpanKind.CONSUMER)
    assert [link.context.span_id for link in process.links] == [
        id_of(span) for span in spans(exporter, SpanKind.PRODUCER)
    ]


async def test_a_send_that_fails_has_a_span_that_says_so(
    cluster: Cluster, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    async with aio.Producer("senders", cluster.namesrv_address, hooks=[SpansOfSends(tracer)]) as producer:
        await producer.send(Message("orders", b"x"))
        await cluster.brokers["broker-a"].close()
        with pytest.raises(PyroError):
            await producer.send(Message("orders", b"x"), timeout_ms=500)

    send = spans(exporter, SpanKind.PRODUCER)[-1]
    assert send.status.status_code == StatusCode.ERROR


async def test_the_end_of_a_transaction_has_a_span(
    cluster: Cluster, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    producer = aio.TransactionProducer(
        "senders",
        cluster.namesrv_address,
        execute=lambda _message, _arg: TransactionState.COMMIT,
        check=lambda _message: TransactionState.COMMIT,
        hooks=[SpansOfSends(tracer)],
    )
    async with producer:
        await producer.send_in_transaction(Message("orders", b"x"))

    (settle,) = spans(exporter, SpanKind.CLIENT)
    assert settle.attributes is not None
    assert settle.attributes["messaging.operation.name"] == "COMMIT_MESSAGE"


def test_the_blocking_faces_have_spans_too(exporter: InMemorySpanExporter, tracer: Tracer) -> None:
    from pyromq.testing.cluster import running_cluster

    with (
        running_cluster() as cluster,
        pyromq.Producer("senders", cluster.namesrv_address, hooks=[SpansOfSends(tracer)]) as producer,
    ):
        producer.send(Message("orders", b"x"))

    assert len(spans(exporter, SpanKind.PRODUCER)) == 1
