"""An application's handlers on a real broker: retries, dead letters, order, the outbox, a lifespan."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from starlette.applications import Starlette

from pyromq import aio
from pyromq.app import App, Reject, RetryLater
from pyromq.app.outcomes import Result
from pyromq.errors import AlreadyStarted, ClientClosed, ConfigError, UnknownTopic
from pyromq.model import ConsumeFrom, Message, ReceivedMessage
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually


class Order(msgspec.Struct):
    id: int


FIRST = ConsumeFrom.FIRST_OFFSET


@pytest.fixture
def app(address: str) -> App:
    return App("billing", address)


@pytest.fixture
async def reader(address: str) -> AsyncIterator[aio.PullConsumer]:
    async with aio.PullConsumer("reader", address) as reader:
        yield reader


async def all_of(reader: aio.PullConsumer, topic: str) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    try:
        queues = await reader.queues(topic)
    except UnknownTopic:
        return found
    for queue in queues:
        found += (await reader.pull(queue, await reader.min_offset(queue))).messages
    return found


async def test_what_one_handler_publishes_another_one_gets(app: App) -> None:
    seen: list[tuple[str, int]] = []

    @app.consumer("orders", tags="paid", publishes="invoices", consume_from=FIRST)
    async def charge(order: Order) -> Order:
        seen.append(("order", order.id))
        return Order(order.id + 1)

    @app.consumer("invoices", consume_from=FIRST)
    def keep(invoice: Order) -> None:
        seen.append(("invoice", invoice.id))

    async with app:
        await app.publish("orders", Order(6), tags="new")
        await app.publish("orders", Order(7), tags="paid", keys=["k7"])
        await aeventually(lambda: len(seen) == 2)

        assert seen == [("order", 7), ("invoice", 8)]
        await aeventually(lambda: app.metrics.count(app.handlers[0], Result.DONE) == 1)
    with pytest.raises(ClientClosed):
        await app.publish("orders", Order(8))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans of this test: a process has one provider, and this is it for a while."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


async def test_spans_lead_from_a_request_over_each_handler_to_the_next(
    address: str, exporter: InMemorySpanExporter
) -> None:
    app = App("billing", address, tracing=True)
    inside: list[int] = []

    @app.consumer("orders", publishes="invoices", consume_from=FIRST)
    def charge(order: Order) -> Order:
        inside.append(trace.get_current_span().get_span_context().span_id)
        return order

    @app.consumer("invoices", consume_from=FIRST)
    async def refuse(invoice: Order) -> None:
        raise Reject("no")

    async with app:
        with trace.get_tracer("web").start_as_current_span("POST /orders"):
            await app.publish("orders", Order(7))
        await aeventually(lambda: app.metrics.count(app.handlers[1], Result.DEAD) == 1)

    spans = {span.name: span for span in exporter.get_finished_spans()}
    path = ["POST /orders", "send orders", "process orders", "send invoices", "process invoices"]
    for earlier, later in pairwise(path):
        parent, context = spans[later].parent, spans[earlier].context
        assert parent is not None
        assert context is not None
        assert parent.span_id == context.span_id, later
    found = spans["process orders"].context
    assert found is not None
    assert inside == [found.span_id]
    assert spans["process invoices"].status.status_code is StatusCode.ERROR


async def test_a_message_that_failed_comes_again_and_is_a_dead_letter_at_last(
    app: App, clock: ManualClock, reader: aio.PullConsumer
) -> None:
    tries: list[int] = []

    @app.consumer("orders", retries=1, retry_after="5s", consume_from=FIRST)
    def fail(_order: Order, message: ReceivedMessage) -> None:
        tries.append(message.reconsume_times)
        raise OSError("no printer")

    async with app:
        await app.publish("orders", Order(1))
        handler = app.handlers[0]
        await aeventually(lambda: app.metrics.count(handler, Result.RETRIED) == 1)
        await aeventually(lambda: clock.advance(5_000) or app.metrics.count(handler, Result.DEAD) == 1)
        await aeventually(lambda: all_of(reader, "%DLQ%billing-fail"))

    assert tries == [0, 1]


@pytest.mark.parametrize("mode", ["pull", "pop"])
@pytest.mark.parametrize("ordered", [True, False])
async def test_a_rejected_message_is_a_dead_letter_at_once(
    app: App, reader: aio.PullConsumer, ordered: bool, mode: str
) -> None:
    seen: list[int] = []

    @app.consumer("orders", ordered=ordered, mode=mode)
    async def handle(order: Order) -> None:
        if order.id == 1:
            raise Reject("no such customer")
        seen.append(order.id)

    async def is_reached() -> bool:
        # A new group begins with what is sent from then on.
        await app.publish("orders", Order(0), order_by="x")
        return 0 in seen

    async with app:
        await aeventually(is_reached)
        for number in (1, 2):
            await app.publish("orders", Order(number), order_by="x")
        dead = await aeventually(lambda: all_of(reader, "%DLQ%billing-handle"))
        await aeventually(lambda: 2 in seen)

    assert [message.body for message in dead] == [b'{"id":1}']


async def test_an_ordered_handler_tries_a_message_again_before_those_behind_it(app: App) -> None:
    tries: list[int] = []

    @app.consumer("orders", ordered=True, consume_from=FIRST)
    async def handle(order: Order) -> None:
        tries.append(order.id)
        if len(tries) < 3:
            raise RetryLater(after="1s")

    async with app:
        for number in (1, 2):
            await app.publish("orders", Order(number), order_by="customer")
        await aeventually(lambda: 2 in tries)

    assert tries == [1, 1, 1, 2]


async def test_a_dead_letter_topic_that_refuses_keeps_the_message_in_its_group(
    cluster: Cluster, app: App, clock: ManualClock, reader: aio.PullConsumer
) -> None:
    @app.consumer("orders", dead_letter="orders.rejected" + "x" * 200, consume_from=FIRST)
    def handle(_order: Order) -> None:
        raise Reject("no")

    async with app:
        await app.publish("orders", Order(1))
        handler = app.handlers[0]
        await aeventually(lambda: app.metrics.count(handler, Result.RETRIED) == 1)
        await aeventually(lambda: clock.advance(10_000) or app.metrics.count(handler, Result.RETRIED) == 2)


async def test_messages_of_the_outbox_leave_when_their_transaction_is_committed(
    address: str, tmp_path: Path
) -> None:
    database = tmp_path / "shop.db"
    app = App("shop", address, outbox=lambda: sqlite3.connect(database))
    seen: list[int] = []

    @app.consumer("orders", consume_from=FIRST)
    def handle(order: Order) -> None:
        seen.append(order.id)

    async with app:
        with closing(sqlite3.connect(database)) as connection:
            app.enqueue(connection, "orders", Order(1))
            connection.rollback()
            app.enqueue(connection, "orders", Order(2))
            connection.commit()
        await aeventually(lambda: seen)

    assert seen == [2]


async def test_a_plain_handler_publishes_from_its_thread(app: App) -> None:
    seen: list[str] = []

    @app.consumer("orders", consume_from=FIRST)
    def handle(order: Order) -> None:
        seen.append(threading.current_thread().name)
        app.publish_blocking("invoices", order)

    @app.consumer("invoices", consume_from=FIRST)
    async def keep(_invoice: Order) -> None:
        with pytest.raises(RuntimeError, match="would wait for the loop that it runs on"):
            app.publish_blocking("audit", {})
        seen.append("kept")

    async with app:
        await app.publish("orders", Order(1))
        await aeventually(lambda: "kept" in seen)

    assert seen[0].startswith("pyromq-handle")


async def test_a_script_publishes_without_starting_the_application(
    app: App, reader: aio.PullConsumer
) -> None:
    await asyncio.to_thread(app.publish_blocking, "orders", Order(1), tags="paid")

    assert [message.body for message in await all_of(reader, "orders")] == [b'{"id":1}']
    await app.close()


async def test_closing_waits_for_handlers_that_run(app: App) -> None:
    began, release, ended = asyncio.Event(), asyncio.Event(), []

    @app.consumer("orders", consume_from=FIRST)
    async def handle(order: Order) -> None:
        began.set()
        await release.wait()
        ended.append(order.id)

    async with app:
        await app.publish("orders", Order(1))
        await began.wait()
        closing = asyncio.create_task(app.close())
        await aeventually(lambda: not app.is_running)
        assert not closing.done()
        release.set()
        await closing

    assert ended == [1]


async def test_it_starts_once_and_has_no_stage_while_it_runs(app: App) -> None:
    async with app:
        with pytest.raises(AlreadyStarted, match="application billing runs already"):
            await app.start()
        with pytest.raises(AlreadyStarted, match="its messages go to a broker"):
            app.test().__enter__()


@asynccontextmanager
async def served(asgi: Any) -> AsyncIterator[list[dict[str, str]]]:
    """What a web server does: startup, requests, shutdown."""
    events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    said: list[dict[str, str]] = []

    async def send(event: dict[str, str]) -> None:
        said.append(event)

    serving = asyncio.create_task(asgi({"type": "lifespan", "state": {}}, events.get, send))
    events.put_nowait({"type": "lifespan.startup"})
    await aeventually(lambda: said or serving.done())
    yield said
    events.put_nowait({"type": "lifespan.shutdown"})
    await serving


async def test_a_web_application_runs_it_by_its_lifespan(app: App) -> None:
    seen: list[int] = []

    @app.consumer("orders", consume_from=FIRST)
    def handle(order: Order) -> None:
        seen.append(order.id)

    async with served(Starlette(lifespan=app.lifespan)) as said:
        assert said == [{"type": "lifespan.startup.complete"}]
        await app.publish("orders", Order(1))
        await aeventually(lambda: seen)

    assert not app.is_running


async def test_an_application_without_a_lifespan_is_wrapped_in_one(app: App) -> None:
    requests: list[str] = []

    async def django(scope: dict[str, str], _receive: object, _send: object) -> None:
        assert app.is_running
        requests.append(scope["type"])

    asgi: Any = app.asgi(django)  # type: ignore[arg-type]
    async with served(asgi) as said:
        await asgi({"type": "http"}, None, None)

    assert requests == ["http"]
    assert [event["type"] for event in said] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert not app.is_running


async def test_a_start_that_fails_is_told_to_the_web_server(address: str) -> None:
    app = App("billing", address, tracing=True, outbox=lambda: sqlite3.connect("/no/such/folder/x.db"))

    with pytest.raises(sqlite3.OperationalError):
        async with served(app.asgi(Starlette())) as said:
            assert said == [{"type": "lifespan.startup.failed", "message": "unable to open database file"}]

    assert not app.is_running


async def test_two_members_share_the_messages_of_a_handler(address: str) -> None:
    """Each process of `pyromq run --workers 2` is such a member."""
    seen: set[int] = set()
    apps = [App("billing", address) for _ in range(2)]
    for app in apps:

        @app.consumer("orders", consume_from=FIRST)
        async def handle(order: Order) -> None:
            assert order.id not in seen
            seen.add(order.id)

    async with apps[0]:
        await apps[0].publish("orders", Order(0))
        async with apps[1]:
            for number in range(1, 40):
                await apps[1].publish("orders", Order(number))
            await aeventually(lambda: len(seen) == 40)


async def test_a_topic_of_a_message_is_checked(app: App) -> None:
    async with app:
        with pytest.raises(ConfigError, match="cannot be a body"):
            await app.publish("orders", object())
        await app.publish("orders", "text")
        assert app.message("orders", "text") == Message("orders", b"text")
