"""What FastStream's own tests ask of every broker, asked of ours: on a cluster, and with the test broker.

FastStream's source distribution has no tests, so these are ours, by the same patterns: bodies and types,
several publishers, replies, filters, handlers that come later, several brokers, what a test broker leaves.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from faststream import BaseMiddleware, Context, Depends, FastStream, Response
from faststream._internal.parser import DefaultCodec
from faststream.exceptions import StopConsume
from faststream_stage import FIRST, Running
from pydantic import BaseModel

from pyromq.faststream import RocketBroker, RocketRouter, TestRocketBroker
from pyromq.faststream.annotations import RocketMessage
from pyromq.testing.waiting import aeventually

Make = Callable[..., RocketBroker]


class Greeting(BaseModel):
    text: str


@dataclass
class Parting:
    text: str


NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "kind", "seen"),
    [
        ("hello", str, "hello"),
        (b"hello", bytes, b"hello"),
        (1, int, 1),
        (1.5, float, 1.5),
        (1, float, 1.0),
        (False, bool, False),
        ({"a": 1}, dict[str, int], {"a": 1}),
        ([1, 2, 3], list[int], [1, 2, 3]),
        (NOW, datetime, NOW),
        (Parting("bye"), Parting, Parting("bye")),
        (Parting("bye"), dict, {"text": "bye"}),
        ({"text": "bye"}, Parting, Parting("bye")),
        (b'{"text": "bye"}', Parting, Parting("bye")),
        (Greeting(text="hi"), Greeting, Greeting(text="hi")),
        (Greeting(text="hi"), dict, {"text": "hi"}),
        ({"text": "hi"}, Greeting, Greeting(text="hi")),
        (b'{"text": "hi"}', Greeting, Greeting(text="hi")),
    ],
)
async def test_a_body_is_read_as_the_handlers_type(
    broker: RocketBroker, body: Any, kind: Any, seen: Any
) -> None:
    bodies: list[Any] = []

    @broker.subscriber("in", consume_from=FIRST)
    async def handle(body: kind) -> None:
        bodies.append(body)

    async with Running(broker) as running:
        await running.publish(body, "in")
        await aeventually(lambda: bodies, 30, what="the message")

    assert bodies == [seen]
    assert type(bodies[0]) is type(seen)


@pytest.mark.parametrize("body", [None, "", b""])
async def test_a_message_without_a_body_calls_its_handler(broker: RocketBroker, body: Any) -> None:
    calls: list[bytes] = []

    @broker.subscriber("in", consume_from=FIRST)
    async def handle(message: Any = Context("message")) -> None:  # noqa: B008
        calls.append(message.body)

    async with Running(broker) as running:
        await running.publish(body, "in")
        await aeventually(lambda: calls, 30, what="the message")

    assert calls == [b""]


async def test_a_request_and_its_reply_may_be_without_a_body(broker: RocketBroker) -> None:
    @broker.subscriber("in", consume_from=FIRST)
    async def say_nothing() -> None: ...

    async with Running(broker) as running:
        reply = await running.request(None, "in", timeout=30)

    assert reply.body == b""


async def test_fields_and_items_of_a_body_are_the_handlers_parameters(broker: RocketBroker) -> None:
    seen: list[Any] = []

    @broker.subscriber("fields", consume_from=FIRST)
    async def fields(a: int, b: int) -> None:
        seen.append((a, b))

    @broker.subscriber("items", consume_from=FIRST)
    async def items(a: int, b: int, *others: tuple[int, ...]) -> None:
        seen.append((a, b, others))

    async with Running(broker) as running:
        await running.publish({"a": 1, "b": 2.0}, "fields")
        await running.publish([1, 2.0, 3.0, 4.0], "items")
        await aeventually(lambda: len(seen) == 2, 30, what="both messages")

    assert sorted(seen, key=len) == [(1, 2), (1, 2, (3, 4))]


async def test_a_response_has_headers_and_the_correlation_of_its_own(broker: RocketBroker) -> None:
    seen: list[Any] = []

    @broker.subscriber("in", consume_from=FIRST)
    @broker.publisher("out")
    async def answer(body: str) -> Response:
        return Response(1, headers={"by": "answer"}, correlation_id="c-1")

    @broker.subscriber("out", consume_from=FIRST)
    async def keep(message: Any = Context("message")) -> None:  # noqa: B008
        seen.append((message.body, message.headers["by"], message.correlation_id))

    async with Running(broker) as running:
        await running.publish("?", "in")
        await aeventually(lambda: seen, 30, what="the answer")

    assert seen == [(b"1", "answer", "c-1")]


async def test_publishers_are_stacked_shared_and_called_by_hand(broker: RocketBroker) -> None:
    seen: list[tuple[str, str]] = []
    shared, by_hand = broker.publisher("shared"), broker.publisher("by-hand")

    @shared
    @broker.publisher("own")
    @broker.subscriber("one", consume_from=FIRST)
    async def one(body: str) -> str:
        return f"one {body}"

    @shared
    @broker.subscriber("two", consume_from=FIRST)
    async def two(body: str) -> str:
        await by_hand.publish("by hand")
        return f"two {body}"

    @broker.subscriber("own", consume_from=FIRST)
    @broker.subscriber("shared", consume_from=FIRST)
    @broker.subscriber("by-hand", consume_from=FIRST)
    async def keep(body: str, message: RocketMessage) -> None:
        seen.append((message.raw_message.message.topic, body))

    async with Running(broker) as running:
        await running.publish("a", "one")
        await running.publish("b", "two")
        await aeventually(lambda: len(seen) >= 4, 30, what="four messages")

    assert sorted(seen) == [
        ("by-hand", "by hand"),
        ("own", "one a"),
        ("shared", "one a"),
        ("shared", "two b"),
    ]


async def test_a_reply_goes_where_the_sender_said_unless_the_handler_gives_none(broker: RocketBroker) -> None:
    replies: list[str] = []
    silent = asyncio.Event()

    class Seen(BaseMiddleware):
        async def after_processed(self, *arguments: Any, **options: Any) -> Any:
            result = await super().after_processed(*arguments, **options)
            if self.msg.message.topic == "silent":
                silent.set()
            return result

    broker.add_middleware(Seen)

    @broker.subscriber("replies", consume_from=FIRST)
    async def keep(body: str) -> None:
        replies.append(body)

    @broker.subscriber("silent", no_reply=True, consume_from=FIRST)
    async def say_nothing(body: str) -> str:
        return body

    @broker.subscriber("in", consume_from=FIRST)
    async def say(body: str) -> str:
        return body

    async with Running(broker) as running:
        await running.publish("nothing", "silent", reply_to="replies")
        await asyncio.wait_for(silent.wait(), 30)
        await running.publish("hello", "in", reply_to="replies")
        await aeventually(lambda: replies, 30, what="the reply")

    assert replies == ["hello"]


async def test_the_first_handler_whose_filter_holds_gets_a_message(broker: RocketBroker) -> None:
    seen: list[Any] = []
    subscriber = broker.subscriber("in", consume_from=FIRST)

    @subscriber(filter=lambda message: message.content_type == "application/json")
    async def structured(body: Any) -> None:
        seen.append(("json", body))

    @subscriber
    async def other(body: Any) -> None:
        seen.append(("other", body))

    async with Running(broker) as running:
        await running.publish({"a": 1}, "in")
        await running.publish("text", "in")
        await aeventually(lambda: len(seen) == 2, 30, what="both messages")

    assert sorted(seen) == [("json", {"a": 1}), ("other", "text")]


async def test_one_handler_reads_two_topics(broker: RocketBroker) -> None:
    seen: list[str] = []

    @broker.subscriber("one", consume_from=FIRST)
    @broker.subscriber("two", consume_from=FIRST)
    def handle(body: str) -> None:
        seen.append(body)

    async with Running(broker) as running:
        await running.publish("a", "one")
        await running.publish("b", "two")
        await aeventually(lambda: len(seen) == 2, 30, what="both messages")

    assert sorted(seen) == ["a", "b"]


async def test_without_a_serializer_nothing_is_converted_and_dependencies_work(make_broker: Make) -> None:
    seen: list[Any] = []
    broker = make_broker(serializer=None)

    def number() -> str:
        return "100"

    @broker.subscriber("in", consume_from=FIRST)
    async def handle(body: Greeting, given: int = Depends(number), of: Any = Context("broker")) -> None:  # noqa: B008
        seen.append((body, given, of))

    async with Running(broker) as running:
        await running.publish({"text": "hi"}, "in")
        await aeventually(lambda: seen, 30, what="the message")

    assert seen == [({"text": "hi"}, "100", broker)]


async def test_a_handler_of_a_running_broker_starts_and_stops_by_itself(broker: RocketBroker) -> None:
    seen: list[str] = []

    async def handle(body: str) -> None:
        seen.append(body)

    async with Running(broker) as running:
        subscriber = running.subscriber("in", consume_from=FIRST)
        subscriber(handle)
        await subscriber.start()
        await running.publish("hello", "in")
        await aeventually(lambda: seen, 30, what="the message")
        await subscriber.stop()
        published = running.publisher("in")
        if not broker.is_test:  # type: ignore[attr-defined]
            await published.publish("nobody is there")

    assert seen == ["hello"]


async def test_two_brokers_of_an_application_keep_apart_and_publish_to_each_other(make_broker: Make) -> None:
    seen: list[str] = []
    first, second = make_broker(group="first"), make_broker(group="second")

    @first.subscriber("in", consume_from=FIRST)
    @second.publisher("out")
    async def forward(body: str) -> str:
        return body

    @second.subscriber("out", consume_from=FIRST)
    async def keep(body: str) -> None:
        seen.append(body)

    async with Running(first, second):
        app = FastStream(first, second)
        await app.start()
        await first.publish("hello", "in")
        await aeventually(lambda: seen, 30, what="the message")
        await app.stop()

    assert seen == ["hello"]


async def test_a_handler_that_says_so_consumes_no_more(address: str) -> None:
    broker = RocketBroker(address)
    calls: list[str] = []

    @broker.subscriber("in", consume_from=FIRST)
    async def handle(body: str) -> None:
        calls.append(body)
        raise StopConsume

    async with broker:
        await broker.start()
        (subscriber,) = broker.subscribers
        await broker.publish("one", "in")
        await aeventually(lambda: calls and not subscriber.running, 30, what="the subscriber has stopped")
        await broker.publish("two", "in")
        assert not subscriber.running

    assert calls == ["one"]


async def test_messages_are_iterated_and_a_handler_excludes_that(address: str) -> None:
    async with RocketBroker(address) as broker:
        subscriber = broker.subscriber("in", consume_from=FIRST)
        handled = broker.subscriber("handled")

        @handled
        async def handle(body: str) -> None: ...

        await broker.publish("one", "in")
        await broker.publish("two", "in")
        await broker.start()
        seen: list[Any] = []
        async with asyncio.timeout(60):
            async for message in subscriber:
                seen.append(await message.decode())
                await message.ack()
                if len(seen) == 2:
                    break

        assert sorted(seen) == ["one", "two"]
        assert await subscriber.get_one(timeout=1e-6) is None
        with pytest.raises(AssertionError):
            await handled.get_one(timeout=1e-6)


async def test_the_test_broker_leaves_nothing_behind(address: str) -> None:
    broker = RocketBroker(address)

    @broker.subscriber("in")
    async def handle(body: str) -> None: ...

    publishers = [broker.publisher("in"), broker.publisher("out")]
    await broker.start()
    producer, connection = broker.config.broker_config.producer, broker._connection
    try:
        for _ in range(2):
            async with TestRocketBroker(broker) as tested:
                assert isinstance(tested.start, Mock)
                assert len(tested.subscribers) == 2
                assert tested.config.broker_config.producer is not producer
            assert len(broker.subscribers) == 1
        assert broker.config.broker_config.producer is producer
        assert broker._connection is connection
        assert not isinstance(broker.start, Mock)
        await publishers[1].publish("to the cluster")
    finally:
        await broker.stop()


async def test_with_real_the_mocks_watch_a_cluster(address: str) -> None:
    broker = RocketBroker(address)
    answers = broker.publisher("answers")

    @broker.subscriber("in", consume_from=FIRST)
    async def handle(body: str) -> None:
        await answers.publish(f"{body}!")

    async with TestRocketBroker(broker, with_real=True) as real:
        assert not isinstance(real.start, Mock)
        await real.publish("hello", "in")
        await handle.wait_call(30)
        handle.mock.assert_called_once_with("hello")
        await aeventually(lambda: answers.mock.called, 30, what="the answer")
        answers.mock.assert_called_once_with("hello!")


async def test_requests_keep_their_correlation_and_pass_middlewares_and_routers(broker: RocketBroker) -> None:
    class Twice(BaseMiddleware):
        async def consume_scope(self, call_next: Any, msg: Any) -> Any:
            msg.body = msg.body * 2
            return await call_next(msg)

        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            cmd.body = cmd.body * 2
            return await call_next(cmd)

    router = RocketRouter("shop-", middlewares=[Twice])
    asked, plain = router.publisher("in"), broker.publisher("plain")

    @router.subscriber("in", consume_from=FIRST)
    async def echo(body: str) -> str:
        return body

    @broker.subscriber("plain", consume_from=FIRST)
    async def answer(body: str) -> str:
        return f"{body}!"

    broker.include_router(router)
    async with Running(broker) as running:
        by_router = await asked.request("x", timeout=30, correlation_id="c-1")
        by_publisher = await plain.request("y", timeout=30, correlation_id="c-2")
        by_broker = await running.request("z", "plain", timeout=30, correlation_id="c-3")

        # Asked, read, answered, and the answer read.
        assert await by_router.decode() == "x" * 16
        assert await by_publisher.decode() == "y!"
        assert await by_broker.decode() == "z!"
        assert [one.correlation_id for one in (by_router, by_publisher, by_broker)] == ["c-1", "c-2", "c-3"]


async def test_a_request_that_takes_too_long_is_a_timeout(broker: RocketBroker) -> None:
    hold = asyncio.Event()

    @broker.subscriber("in", consume_from=FIRST)
    async def wait(body: str) -> str:
        await hold.wait()
        return body

    async with Running(broker) as running:
        with pytest.raises(TimeoutError):
            await running.request("x", "in", timeout=0.2)
        hold.set()


async def test_codecs_of_a_broker_and_of_a_subscriber_encode_and_decode(make_broker: Make) -> None:
    steps: list[str] = []

    class Noting(DefaultCodec):
        def __init__(self, name: str) -> None:
            self.name = name

        async def encode(self, *arguments: Any) -> Any:
            steps.append(f"{self.name} encodes")
            return await super().encode(*arguments)

        async def decode(self, message: Any) -> Any:
            steps.append(f"{self.name} decodes")
            return await super().decode(message)

    broker = make_broker(codec=Noting("broker"))

    @broker.subscriber("one", consume_from=FIRST)
    async def one(body: str) -> None:
        steps.append(body)

    @broker.subscriber("two", codec=Noting("subscriber"), consume_from=FIRST)
    async def two(body: str) -> None:
        steps.append(body)

    async with Running(broker) as running:
        await running.publish("a", "one")
        await aeventually(lambda: "a" in steps, 30, what="the first message")
        await running.publish("b", "two")
        await aeventually(lambda: "b" in steps, 30, what="the second message")

    own = ["broker encodes", "broker decodes", "a", "broker encodes", "subscriber decodes", "b"]
    assert steps == own


async def test_a_codec_beside_a_decoder_is_refused(broker: RocketBroker) -> None:
    async def decoder(message: Any, original: Any) -> Any:
        return await original(message)

    @broker.subscriber("in", codec=DefaultCodec(), decoder=decoder)
    async def handle(body: str) -> None: ...

    with pytest.raises(ValueError, match="codec"):
        async with Running(broker):
            pass
    await broker.stop()


async def test_a_broker_that_was_not_started_stops_and_one_that_was_connected_answers(address: str) -> None:
    broker = RocketBroker(address)
    await broker.stop()
    assert not broker.running
    await broker.connect()
    assert await broker.ping(timeout=5.0)
    await broker.stop()
    assert not await RocketBroker("127.0.0.1:1").ping(timeout=0.5)


async def test_an_error_of_a_handler_or_a_parser_reaches_the_test() -> None:
    broker = RocketBroker("127.0.0.1:1")

    def unread(_raw: Any) -> Any:
        raise KeyError("unread")

    @broker.subscriber("in")
    async def handle(body: str) -> None:
        raise ValueError(body)

    @broker.subscriber("unread", parser=unread)
    async def never(body: str) -> None: ...

    async with TestRocketBroker(broker) as tested:
        with pytest.raises(ValueError, match="bad"):
            await tested.publish("bad", "in")
        with pytest.raises(KeyError, match="unread"):
            await tested.publish("x", "unread")
