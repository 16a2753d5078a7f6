"""Python clients of every kind while a master is lost, and another replica takes over by itself."""

import asyncio
from collections import defaultdict
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from failover_stage import LONG_S, crash, stage_of

from pyromq import (
    ClientSettings,
    ConsumeFrom,
    ConsumeResult,
    Message,
    ReceivedMessage,
    SendStatus,
    TransactionState,
    select_by_hash,
)
from pyromq.aio import Producer, PushConsumer, TransactionProducer
from pyromq.testing.waiting import aeventually

pytestmark = pytest.mark.timeout(180)
SETTINGS = ClientSettings(
    send_msg_timeout=60_000,
    poll_name_server_interval=1_000,
    rebalance_wait_interval=1_000,
    persist_consumer_offset_interval=200,
)
KEYS = ("red", "blue", "green")


class Readers:
    """Two groups, one that reads in order and one that does not, and what they saw."""

    def __init__(self, name_server: str) -> None:
        self.seen: set[bytes] = set()
        self.in_order: dict[str, list[int]] = defaultdict(list)
        self._consumers = [
            PushConsumer(
                group,
                name_server,
                listener=listener,
                order=order,
                settings=SETTINGS,
                consume_from=ConsumeFrom.FIRST_OFFSET,
            )
            for group, listener, order in (
                ("readers", self._note, "concurrent"),
                ("readers-in-order", self._note_in_order, "orderly"),
            )
        ]

    async def __aenter__(self) -> "Readers":
        for consumer in self._consumers:
            consumer.subscribe("t")
            await consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for consumer in self._consumers:
            await consumer.close()

    def has_read(self, wanted: list[bytes]) -> bool:
        """Whether all of these messages were read."""
        return not set(wanted) - self.seen

    def has_read_in_order(self, key: str, count: int) -> bool:
        """Whether so many messages of a key were read in order."""
        return len(set(self.in_order[key])) >= count

    async def _note(self, message: ReceivedMessage) -> ConsumeResult:
        self.seen.add(message.body)
        return ConsumeResult.SUCCESS

    async def _note_in_order(self, message: ReceivedMessage) -> ConsumeResult:
        key, _, number = message.body.decode().partition(" ")
        if key in KEYS:
            self.in_order[key].append(int(number))
        return ConsumeResult.SUCCESS


def without_repeats(numbers: list[int]) -> list[int]:
    """Return what was read for the first time; what was read and not yet noted comes again."""
    return list(dict.fromkeys(numbers))


async def commit(_message: Message, _argument: object) -> TransactionState:
    return TransactionState.COMMIT


async def check(_message: ReceivedMessage) -> TransactionState:
    return TransactionState.COMMIT


class Senders:
    """One sender of each kind; none of them may see an error."""

    def __init__(self, name_server: str) -> None:
        self.acknowledged: list[bytes] = []
        self._producer = Producer("senders", name_server, SETTINGS)
        self._payers = TransactionProducer("payers", name_server, SETTINGS, execute=commit, check=check)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Senders":
        await self._producer.start()
        await self._payers.start()
        kinds = [self._send_plain(), self._send_delayed(), self._send_in_transactions()]
        works = [*kinds, *(self._send_in_order(key) for key in KEYS)]
        self._tasks = [asyncio.get_running_loop().create_task(work) for work in works]
        await self.more()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.close()
        await self._payers.close()

    async def stop(self) -> None:
        """Send no more; what brokers ask about transactions is still answered."""
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended

    async def more(self, each: int = 5) -> None:
        """Return when every sender got some further messages acknowledged, or one failed."""
        before = len(self.acknowledged)
        wanted = before + each * len(self._tasks)
        await aeventually(
            lambda: len(self.acknowledged) >= wanted or any(task.done() for task in self._tasks), LONG_S
        )

    async def _send_plain(self) -> None:
        for number in count():
            await self._send(Message("t", b"plain %d" % number))

    async def _send_delayed(self) -> None:
        for number in count():
            await self._send(Message("t", b"delayed %d" % number, delay_level=1))

    async def _send_in_order(self, key: str) -> None:
        for number in count():
            await self._send(Message("t", f"{key} {number}".encode()), selector=select_by_hash(key))

    async def _send_in_transactions(self) -> None:
        for number in count():
            body = b"paid %d" % number
            sent = await self._payers.send_in_transaction(Message("t", body))
            if sent.status is SendStatus.SEND_OK:
                self.acknowledged.append(body)

    async def _send(self, message: Message, **more: object) -> None:
        sent = await self._producer.send(message, **more)  # type: ignore[arg-type]
        if sent.status is SendStatus.SEND_OK:
            self.acknowledged.append(message.body)


@pytest.mark.row("HA-09")
async def test_clients_of_every_kind_only_see_a_pause_and_nothing_is_lost(tmp_path: Path) -> None:
    settings = {"transaction_time_out": 1_000, "transaction_check_interval": 1_000}
    async with (
        stage_of(tmp_path, **settings) as stage,
        Readers(stage.name_server) as readers,
        Senders(stage.name_server) as senders,
    ):
        master = await stage.master()
        await crash(master)
        await stage.master(but=master)
        await senders.more()
        await senders.stop()
        await aeventually(partial(readers.has_read, senders.acknowledged), LONG_S)

        for key in KEYS:
            sent = [body for body in senders.acknowledged if body.startswith(f"{key} ".encode())]
            await aeventually(partial(readers.has_read_in_order, key, len(sent)), LONG_S)
            first_times = without_repeats(readers.in_order[key])
            assert first_times == sorted(first_times)
