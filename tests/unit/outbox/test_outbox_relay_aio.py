"""The awaitable relay does what the blocking one does, with the sends of a round at once."""

import asyncio
import inspect
from datetime import timedelta
from pathlib import Path

import pytest
from outbox_stage import SendsToMemoryAwaitably, Shop

import pyromq.outbox
from pyromq import Message, RequestTimeout, SendResult
from pyromq.client.producer.queue_choice import Selector
from pyromq.outbox import RelaySettings, aio
from pyromq.testing.waiting import aeventually

AWAY = RequestTimeout("no answer within 3 s")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def producer() -> SendsToMemoryAwaitably:
    return SendsToMemoryAwaitably()


def relay_of(shop: Shop, producer: SendsToMemoryAwaitably, **settings: int) -> aio.Relay:
    return aio.Relay(shop.connect, producer, RelaySettings(**settings), clock=shop.clock)


def test_both_relays_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        }

    assert methods(pyromq.outbox.Relay) == methods(aio.Relay)


async def test_what_was_committed_is_sent_and_removed(shop: Shop, producer: SendsToMemoryAwaitably) -> None:
    ids = [shop.order(number) for number in range(3)]

    report = await relay_of(shop, producer).run_once()

    assert report.sent == 3
    assert producer.ids == ids
    assert shop.rows("id") == []


async def test_the_sends_of_a_round_are_under_way_together(shop: Shop) -> None:
    class WaitsForThree(SendsToMemoryAwaitably):
        def __init__(self) -> None:
            super().__init__()
            self.barrier = asyncio.Barrier(3)

        async def send(  # type: ignore[override]
            self, message: Message, *, selector: Selector | None = None, timeout_ms: int | None = None
        ) -> SendResult:
            await self.barrier.wait()
            return await super().send(message, selector=selector, timeout_ms=timeout_ms)

    for number in range(3):
        shop.order(number)

    report = await asyncio.wait_for(relay_of(shop, WaitsForThree()).run_once(), 10)

    assert report.sent == 3


async def test_a_failure_is_written_down_and_tried_again(
    shop: Shop, producer: SendsToMemoryAwaitably
) -> None:
    message_id = shop.order(1)
    relay = relay_of(shop, producer)
    producer.failing = {"orders": AWAY}
    await relay.run_once()
    (stuck,) = await relay.stuck(timedelta(0))

    producer.failing = {}
    shop.clock.advance(1_000)
    await relay.run_once()

    assert (stuck.attempts, stuck.last_error) == (1, "RequestTimeout: no answer within 3 s")
    assert producer.ids == [message_id]


async def test_messages_of_a_group_are_sent_one_after_the_other(
    shop: Shop, producer: SendsToMemoryAwaitably
) -> None:
    for number in range(3):
        shop.order(number, group="customer-7")
    relay = relay_of(shop, producer)

    assert [(await relay.run_once()).sent for _ in range(3)] == [1, 1, 1]

    assert producer.bodies == [b"order 0", b"order 1", b"order 2"]


async def test_a_running_relay_sends_when_it_is_woken_and_stops_when_told(
    shop: Shop, producer: SendsToMemoryAwaitably
) -> None:
    relay = relay_of(shop, producer, poll_ms=60_000)
    task = asyncio.create_task(relay.run())
    shop.order(1)
    relay.wake()

    await aeventually(lambda: len(producer.messages) == 1)
    relay.stop()
    await asyncio.wait_for(task, 10)


async def test_a_relay_looks_again_when_the_clock_is_moved(
    shop: Shop, producer: SendsToMemoryAwaitably
) -> None:
    shop.order(1)
    producer.failing = {"orders": AWAY}
    relay = relay_of(shop, producer, poll_ms=60_000)
    task = asyncio.create_task(relay.run())
    await aeventually(lambda: producer.tries == 1)
    producer.failing = {}

    async def was_sent() -> bool:
        shop.clock.advance(1_000)
        return bool(producer.messages)

    await aeventually(was_sent)
    relay.stop()
    await asyncio.wait_for(task, 10)


async def test_a_relay_that_is_cancelled_leaves_its_rows_to_others(
    shop: Shop, producer: SendsToMemoryAwaitably
) -> None:
    class Hangs(SendsToMemoryAwaitably):
        async def send(  # type: ignore[override]
            self, message: Message, *, selector: Selector | None = None, timeout_ms: int | None = None
        ) -> SendResult:
            self.tries += 1
            await asyncio.Event().wait()
            raise AssertionError

    shop.order(1)
    hanging = Hangs()
    task = asyncio.create_task(relay_of(shop, hanging).run())
    await aeventually(lambda: hanging.tries == 1)
    task.cancel()
    await asyncio.wait({task})

    shop.clock.advance(60_000)
    await relay_of(shop, producer).run_once()

    assert producer.bodies == [b"order 1"]
