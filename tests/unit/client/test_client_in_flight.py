import asyncio
import threading

import pytest

from pyromq import Message, TooManyInFlight, aio
from pyromq.client.aio import producer as awaitable
from pyromq.client.plans import send_plans
from pyromq.client.sync import producer as blocking
from pyromq.model import MessageQueue, SendResult, SendStatus

SENT = SendResult(SendStatus.SEND_OK, "U", "ID", MessageQueue("t", "a", 0), 0)


@pytest.mark.row("SM-11")
def test_65535_asynchronous_sends_may_be_under_way() -> None:
    assert send_plans.IN_FLIGHT_MAX == 65_535


@pytest.mark.row("SM-11")
def test_one_send_too_many_waits_and_is_then_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "IN_FLIGHT_MAX", 2)
    senders, may_end = blocking.Senders(), threading.Event()

    def stuck() -> SendResult:
        may_end.wait(10)
        return SENT

    under_way = [senders.submit(stuck, 0.0) for _ in range(2)]
    with pytest.raises(TooManyInFlight):
        senders.submit(stuck, 0.01)
    may_end.set()
    # As soon as one ends there is room again.
    assert senders.submit(stuck, 10.0).result(10) == SENT
    assert [future.result(10) for future in under_way] == [SENT, SENT]
    senders.close()


@pytest.mark.row("SM-11")
async def test_one_awaitable_send_too_many_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaitable, "IN_FLIGHT_MAX", 2)

    async with aio.Producer("group", "127.0.0.1:1") as producer:
        tasks = [producer.send_async(Message("t", b"x")) for _ in range(2)]
        with pytest.raises(TooManyInFlight):
            producer.send_async(Message("t", b"x"))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
