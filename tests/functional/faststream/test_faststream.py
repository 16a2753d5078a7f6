"""FastStream's patterns on a cluster, and with its test broker."""

import asyncio
import json
from typing import Any

import pytest
from faststream import AckPolicy, BaseMiddleware, Context, FastStream
from faststream.specification import AsyncAPI
from faststream_stage import FIRST, Running
from pydantic import BaseModel

from pyromq.aio import Admin
from pyromq.errors import RequestTimeout
from pyromq.faststream import (
    RocketBroker,
    RocketMessage,
    RocketPublisherRoute,
    RocketResponse,
    RocketRoute,
    RocketRouter,
    TestRocketBroker,
)
from pyromq.faststream.annotations import RocketMessage as TheMessage
from pyromq.testing.waiting import aeventually


class Order(BaseModel):
    id: int
    amount: float = 1.0


async def test_a_model_goes_in_and_what_is_returned_is_published(broker: RocketBroker) -> None:
    bills: list[Order] = []

    @broker.subscriber("orders", consume_from=FIRST)
    @broker.publisher("bills")
    async def charge(order: Order) -> Order:
        return Order(id=order.id, amount=order.amount * 2)

    @broker.subscriber("bills", consume_from=FIRST)
    async def keep(bill: Order) -> None:
        bills.append(bill)

    async with Running(broker) as running:
        await running.publish(Order(id=7, amount=3), "orders")
        await aeventually(lambda: bills, 30, what="the bill")

    assert bills == [Order(id=7, amount=6)]


async def test_handlers_see_headers_tags_and_the_message(broker: RocketBroker) -> None:
    seen: list[Any] = []

    @broker.subscriber("orders", tags="paid", consume_from=FIRST)
    async def handle(body: str, message: TheMessage, source: str = Context("message.headers.source")) -> None:
        seen.append((body, message.raw_message.message.tags, source, message.correlation_id))

    async with Running(broker) as running:
        await running.publish("no", "orders", tags="open", headers={"source": "x"})
        await running.publish("yes", "orders", tags="paid", headers={"source": "shop"}, correlation_id="c-1")
        await aeventually(lambda: seen, 30, what="the message")

    assert seen == [("yes", "paid", "shop", "c-1")]


async def test_a_router_has_a_prefix_handlers_and_publishers(broker: RocketBroker) -> None:
    seen: list[str] = []

    async def first(body: str) -> str:
        return f"{body}!"

    router = RocketRouter(
        "shop-",
        handlers=[
            RocketRoute(first, "in", publishers=[RocketPublisherRoute("out")], consume_from=FIRST),
        ],
    )

    @router.subscriber("out", consume_from=FIRST)
    async def second(body: str) -> None:
        seen.append(body)

    broker.include_router(router)
    async with Running(broker) as running:
        await running.publish("hello", "shop-in")
        await aeventually(lambda: seen, 30, what="the message")

    assert seen == ["hello!"]


async def test_middlewares_parsers_and_decoders_are_called_around_a_handler(broker: RocketBroker) -> None:
    steps: list[str] = []
    done = asyncio.Event()

    class Noting(BaseMiddleware):
        async def consume_scope(self, call_next: Any, msg: Any) -> Any:
            steps.append("before")
            result = await call_next(msg)
            steps.append("after")
            done.set()
            return result

        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            cmd.headers["marked"] = "yes"
            return await call_next(cmd)

    async def parser(raw: Any, original: Any) -> RocketMessage:
        message: RocketMessage = await original(raw)
        steps.append(f"parsed {message.headers['marked']}")
        return message

    async def decoder(message: RocketMessage, original: Any) -> Any:
        return (await original(message)).upper()

    broker.add_middleware(Noting)

    @broker.subscriber("orders", parser=parser, decoder=decoder, consume_from=FIRST)
    async def handle(body: str) -> None:
        steps.append(body)

    async with Running(broker) as running:
        await running.publish("hello", "orders")
        await asyncio.wait_for(done.wait(), 30)

    assert steps == ["parsed yes", "before", "HELLO", "after"]


async def test_a_request_is_answered_by_what_the_handler_returns(broker: RocketBroker) -> None:
    @broker.subscriber("sums", consume_from=FIRST)
    async def add(numbers: list[int]) -> RocketResponse:
        return RocketResponse(sum(numbers), headers={"by": "add"})

    async with Running(broker) as running:
        answer = await running.request([20, 22], "sums", timeout=20)

        assert await answer.decode() == 42
        assert answer.headers["by"] == "add"


async def test_a_request_that_nobody_answers_ends(address: str) -> None:
    async with RocketBroker(address) as broker:
        with pytest.raises(TimeoutError) as raised:
            await broker.request("anybody?", "nobody", timeout=0.3)
        assert isinstance(raised.value.__cause__, RequestTimeout)


@pytest.mark.parametrize(
    ("policy", "calls", "is_dead"),
    [
        (AckPolicy.ACK, 1, False),
        (AckPolicy.NACK_ON_ERROR, 2, False),
        (AckPolicy.REJECT_ON_ERROR, 1, True),
        (AckPolicy.MANUAL, 2, False),
    ],
)
async def test_what_a_failure_means(address: str, policy: AckPolicy, calls: int, is_dead: bool) -> None:
    broker = RocketBroker(address, group="billing")
    times: list[int] = []

    @broker.subscriber("orders", ack_policy=policy, consume_from=FIRST, mode="pop")
    async def handle(body: str, message: TheMessage) -> None:
        times.append(message.raw_message.message.reconsume_times)
        if policy is AckPolicy.MANUAL and len(times) == 2:
            await message.ack()
        if len(times) == 1:
            raise ValueError(body)

    async with broker:
        await broker.publish("bad", "orders")
        await broker.start()
        await aeventually(lambda: len(times) == calls, 60, what="the calls")
        async with Admin(address) as admin:

            async def dead() -> bool:
                return "%DLQ%billing-orders" in await admin.topics()

            if is_dead:
                await aeventually(dead, 30, what="the dead letter")
            assert await dead() is is_dead


async def test_one_message_is_got_without_a_handler(address: str) -> None:
    async with RocketBroker(address) as broker:
        subscriber = broker.subscriber("orders", consume_from=FIRST)
        await broker.publish("hello", "orders")
        await broker.start()
        message = await subscriber.get_one(timeout=20)
        assert message is not None
        assert await message.decode() == "hello"
        await message.ack()
        assert await subscriber.get_one(timeout=0.2) is None
        assert await broker.ping()


async def test_an_application_of_faststream_starts_and_stops_it(address: str) -> None:
    broker = RocketBroker(address)
    seen = asyncio.Event()

    @broker.subscriber("orders", consume_from=FIRST)
    async def handle(body: str) -> None:
        seen.set()

    app = FastStream(broker)
    await app.start()
    await broker.publish("hello", "orders")
    await asyncio.wait_for(seen.wait(), 30)
    await app.stop()

    assert broker._connection is None


def test_asyncapi_names_topics_and_types() -> None:
    broker = RocketBroker("127.0.0.1:9876")

    @broker.subscriber("orders")
    @broker.publisher("bills")
    async def charge(order: Order) -> Order:
        return order

    schema = json.loads(AsyncAPI(broker, title="Shop", schema_version="3.0.0").to_specification().to_json())

    assert {channel["address"] for channel in schema["channels"].values()} == {"orders", "bills"}
    assert "Order" in schema["components"]["schemas"]
    assert next(iter(schema["servers"].values()))["protocol"] == "rocketmq"


async def test_the_test_broker_has_mocks_of_handlers_and_publishers() -> None:
    broker = RocketBroker("127.0.0.1:1")
    bills = broker.publisher("bills")

    @bills
    @broker.subscriber("orders")
    async def charge(order: Order) -> Order:
        return order

    async with TestRocketBroker(broker) as running:
        await running.publish({"id": 7}, "orders")
        charge.mock.assert_called_once_with({"id": 7})
        bills.mock.assert_called_once_with({"id": 7, "amount": 1.0})
