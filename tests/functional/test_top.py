import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import pyromq
from pyromq import Message, aio
from pyromq.cli.main import app
from pyromq.cli.watch.top import record_of, view
from pyromq.cli.watch.top_sample import BrokerRow, TopSample, take_sample
from pyromq.client.aio.asking import Asker
from pyromq.testing.cluster import Cluster, running_cluster


@asynccontextmanager
async def asking(name_server: str) -> AsyncIterator[Asker]:
    asker = Asker(name_server)
    await asker.start()
    yield asker
    await asker.close()


async def send(cluster: Cluster, count: int) -> None:
    async with aio.Producer("senders", cluster.namesrv_address) as producer:
        for _ in range(count):
            await producer.send(Message("orders", b"x"))


async def commit(cluster: Cluster, offset: int) -> None:
    async with aio.PullConsumer("readers", cluster.namesrv_address) as consumer:
        for queue in await consumer.queues("orders"):
            await consumer.pull(queue, 0)
            await consumer.commit(queue, offset)


@pytest.fixture
async def sample(cluster: Cluster) -> TopSample:
    await send(cluster, 8)
    await commit(cluster, 1)
    async with asking(cluster.namesrv_address) as asker:
        return await take_sample(asker)


async def test_a_look_has_brokers_topics_and_groups(cluster: Cluster, sample: TopSample) -> None:
    (broker,) = sample.brokers
    assert (broker.name, broker.broker_id, broker.address) == ("broker-a", 0, cluster.broker_addresses[0])
    assert broker.disk_ratio is not None
    (topic,) = sample.topics
    assert topic.name == "orders"
    assert topic.in_rate > 0
    (group,) = [row for row in sample.groups if row.topic == "orders"]
    assert (group.group, group.lag, sample.lag) == ("readers", 4, 4)
    assert group.behind_ms is not None


async def test_the_next_look_has_rates_by_what_moved(cluster: Cluster, sample: TopSample) -> None:
    async with asking(cluster.namesrv_address) as asker:
        still = await take_sample(asker, sample)
        await send(cluster, 40)
        await commit(cluster, 3)
        moved = await take_sample(asker, still)

    def rates(one: TopSample) -> tuple[float, float]:
        (topic,) = [row for row in one.topics if row.name == "orders"]
        return topic.in_rate, topic.out_rate

    assert rates(still) == (0, 0)
    assert rates(moved)[0] > rates(moved)[1] > 0


async def test_a_broker_that_does_not_answer_is_shown_as_such(tmp_path: Path) -> None:
    async with Cluster(2, data_dir=tmp_path) as cluster:
        async with asking(cluster.namesrv_address) as asker:
            gone = cluster.brokers["broker-b"]
            await gone.close(unregister=False)
            seen = await take_sample(asker)

        shown = {row.name: row.failure is None for row in seen.brokers}
        assert shown.get("broker-a") is True
        assert shown.get("broker-b", False) is False


def test_a_broker_that_is_silent_leaves_the_others_readable_on_a_narrow_terminal() -> None:
    why = "127.0.0.1:10911 did not answer in time, whatever it was asked, and it was asked in so many words"
    rows = [
        BrokerRow("broker-a", 0, "127.0.0.1:10911", failure=why),
        BrokerRow(
            "broker-b", 1, "127.0.0.1:10921", version="V4_9_8", pyromq_version="0.1.0", today_in=1_234_567
        ),
    ]
    console = Console(file=io.StringIO(), width=80)
    console.print(view(TopSample(rows, [], []), 5))
    text = console.file.getvalue()  # type: ignore[attr-defined]

    assert why in " ".join(text.split())
    assert re.search(r"broker-a +master +127.0.0.1:10911 +silent", text)
    assert re.search(r"broker-b +slave 1 +127.0.0.1:10921 +0.1.0 .* 1,234,567", text)


async def test_a_look_is_printed_for_people_and_programs(sample: TopSample) -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(view(sample, 5))
    text = console.file.getvalue()  # type: ignore[attr-defined]

    assert "broker-a" in text
    assert "orders" in text
    assert "readers" in text
    record = json.loads(json.dumps(record_of(sample)))
    assert record["lag"] == 4
    assert {"brokers", "topics", "groups", "lag"} == set(record)


def test_the_command_looks_once_and_prints_an_object() -> None:
    with running_cluster() as cluster, pyromq.Producer("senders", cluster.namesrv_address) as producer:
        producer.send(Message("orders", b"x"))

        ended = CliRunner().invoke(app, ["top", "-n", cluster.namesrv_address, "--once", "--json"])

    assert ended.exit_code == 0, ended.output
    assert [row["name"] for row in json.loads(ended.stdout)["brokers"]] == ["broker-a"]


def test_the_command_says_that_nobody_answers() -> None:
    ended = CliRunner().invoke(app, ["top", "-n", "127.0.0.1:1", "--once"])

    assert ended.exit_code == 4
