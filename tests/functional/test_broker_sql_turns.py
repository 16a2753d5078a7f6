"""A filter by SQL over a hundred thousand messages, and the others whom it must not keep waiting."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.codes import RequestCode, ResponseCode
from pyromq.net.turn import Turn
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

COUNT = 100_000
BATCH = 5_000
ONE_IN = 100
#: The entries of a queue that one pull looks at, as RocketMQ's broker does.
LOOKED_AT_MAX = 800
END = {"topic": "orders", "queueId": 0}


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path, clock=clock, enable_property_filter=True) as cluster:
        yield cluster


@pytest.fixture
async def first(cluster: Cluster) -> AsyncIterator[WireClient]:
    async with WireClient(cluster.broker_addresses[0]) as client:
        yield client


@pytest.fixture
async def second(cluster: Cluster) -> AsyncIterator[WireClient]:
    async with WireClient(cluster.broker_addresses[0]) as client:
        yield client


async def fill(client: WireClient, count: int) -> None:
    """Send messages of which one in a hundred is rare."""
    for first in range(0, count, BATCH):
        units = (
            BatchUnit(0, b"x", f"kind\x01{'rare' if at % ONE_IN == 0 else 'common'}\x02at\x01{at}")
            for at in range(first, first + BATCH)
        )
        fields = send_v2_fields("orders", batch=True)
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(units))
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def rare_from(offset: int) -> dict[str, object]:
    """Return a pull that asks for everything at once."""
    fields = pull_fields("orders", subscription="kind = 'rare' AND at >= 0", expressionType="SQL92")
    return fields | {"queueOffset": offset, "maxMsgNums": COUNT}


def next_offset(answer: Command) -> int:
    return int((answer.ext or {})["nextBeginOffset"])


@pytest.mark.row("FI-02", "FI-03")
async def test_a_pull_by_sql_looks_at_a_bounded_number_of_messages_and_a_group_still_gets_all(
    first: WireClient,
) -> None:
    await fill(first, COUNT)
    offset, found = 0, []

    while offset < COUNT:
        answer = await first.ask(RequestCode.PULL_MESSAGE, rare_from(offset))
        assert offset < next_offset(answer) <= offset + LOOKED_AT_MAX
        offset = next_offset(answer)
        found += [record.queue_offset for record in iter_records(answer.body)]

    assert found == list(range(0, COUNT, ONE_IN))


@pytest.mark.row("FI-02")
async def test_while_one_client_reads_by_sql_the_requests_of_others_are_answered_in_between(
    first: WireClient, second: WireClient
) -> None:
    """Counted in turns of the loop, which client and broker share, and not in seconds."""
    count = 50
    await fill(first, count * LOOKED_AT_MAX)
    pulls = [first.begin(RequestCode.PULL_MESSAGE, rare_from(at * LOOKED_AT_MAX)) for at in range(count)]

    answered_between = 0
    while not all(pull.done() for pull in pulls):
        assert (await second.ask(RequestCode.GET_MAX_OFFSET, END)).code == ResponseCode.SUCCESS
        answered_between += 1

    # All of the pulls came in one piece, and each had a turn of its own. An answer takes about five turns; it
    # takes more when the machine is busy, but never all of them.
    assert answered_between >= 2
    assert all(next_offset(pull.result()) > at * LOOKED_AT_MAX for at, pull in enumerate(pulls))


async def test_turns_are_given_one_by_one_and_in_order() -> None:
    turns, done = Turn(), []

    async def work(number: int) -> None:
        await turns.wait()
        done.append(number)

    assert turns.take()
    assert not turns.take()
    tasks = [asyncio.ensure_future(work(number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert done == [0, 1, 3]
    await aeventually(turns.take)
