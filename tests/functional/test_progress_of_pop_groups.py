"""How far a group is that pops: what tools, metrics and the dashboard show adds up, and is the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from metrics_page import families, page_text

import pyromq
from pyromq import Message, aio
from pyromq.broker.pop.pop_asks import PopAsk
from pyromq.broker.pop.pop_door import Pop
from pyromq.cli.views import group_views
from pyromq.cli.watch.top_sample import take_sample
from pyromq.client.aio.asking import Asker
from pyromq.client.plans.admin.scaling_plans import TopicUpdate
from pyromq.dashboard.sampler import Sampler
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.receipt_handle import ReceiptHandle

GROUP, TOPIC, RETRY = "readers", "orders", "%RETRY%readers_orders"
INVISIBLE_MS = 30_000


@asynccontextmanager
async def popping_cluster(folder: Path, clock: ManualClock | None = None) -> AsyncIterator[Cluster]:
    async with Cluster(
        data_dir=folder, clock=clock, metrics_exporter_type="PROM", metrics_prom_exporter_port=0
    ) as cluster:
        async with aio.Admin(cluster.namesrv_address) as admin:
            await admin.update_topic(TopicUpdate(topic=TOPIC, read_queue_count=1, write_queue_count=1))
            await admin.update_group(SubscriptionGroupConfig(group_name=GROUP))
        async with aio.Producer("senders", cluster.namesrv_address) as producer:
            for number in range(10):
                await producer.send(Message(TOPIC, b"%d" % number))
        yield cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with popping_cluster(tmp_path) as cluster:
        yield cluster


async def popped(pop: Pop, count: int) -> list[ReceiptHandle]:
    """Pop so many messages of the first queue, and return their handles."""
    ask = PopAsk(GROUP, TOPIC, queue_id=0, count_max=count, invisible_ms=INVISIBLE_MS, from_min=True)
    got = await pop.pop(ask, 0)
    (part,) = got.parts
    assert len(part.offsets) == count
    return [
        ReceiptHandle(
            part.start_offset,
            got.popped_at_ms,
            got.invisible_ms,
            got.revive_queue_id,
            part.mark,
            "broker-a",
            part.queue_id,
            offset,
            position,
        )
        for offset, position in zip(part.offsets, part.positions, strict=True)
    ]


async def some_are_in_flight(cluster: Cluster) -> None:
    """Pop six of ten messages, and acknowledge the third and the fourth."""
    pop = cluster.brokers["broker-a"].pop
    handles = await popped(pop, 6)
    await pop.ack(GROUP, TOPIC, handles[2:4])


async def metric(cluster: Cluster, name: str, topic: str = TOPIC) -> float:
    """Return what the metrics say of the group."""
    found = families(await page_text(cluster.brokers["broker-a"].metrics))[name]
    return sum(
        one.value
        for one in found.samples
        if (one.labels["consumer_group"], one.labels["topic"]) == (GROUP, topic)
    )


async def shown_by_dashboard(cluster: Cluster) -> tuple[int, int | None]:
    """Return the lag, and what is in flight, after the dashboard's first round."""
    asker = Asker(cluster.namesrv_address)
    await asker.start()
    sampler = Sampler(asker)
    await sampler.start()
    try:
        assert await sampler.wait_for_round(1, 30)
        group = sampler.picture.groups[GROUP]
        return group.lag, group.in_flight
    finally:
        await sampler.close()
        await asker.close()


async def asked(cluster: Cluster) -> group_views.Listing:
    """Return what `pyromq admin consumerProgress -g` shows."""

    def ask() -> group_views.Listing:
        with pyromq.Admin(cluster.namesrv_address) as admin:
            return group_views.progress(admin, GROUP)

    return await asyncio.to_thread(ask)


async def lag_in_top(cluster: Cluster) -> int:
    asker = Asker(cluster.namesrv_address)
    await asker.start()
    try:
        return (await take_sample(asker)).lag
    finally:
        await asker.close()


@pytest.mark.row("PO-14")
async def test_the_lag_is_what_waits_and_what_is_in_flight_and_all_agree(cluster: Cluster) -> None:
    await some_are_in_flight(cluster)

    listing = await asked(cluster)

    (row,) = [row for row in listing.records if row["queue"] == 0 and row["topic"] == TOPIC]
    assert (row["broker_offset"], row["consumer_offset"], row["next_offset"]) == (10, 0, 6)
    # Four wait, and four of the six that were popped are not acknowledged.
    assert (row["lag"], row["in_flight"]) == (8, 4)
    assert ("#Inflight", "in_flight") in listing.columns
    assert "Diff Total: 8" in listing.notes
    assert await metric(cluster, "rocketmq_consumer_lag_messages") == 8
    assert await metric(cluster, "rocketmq_consumer_inflight_messages") == 4
    assert await metric(cluster, "rocketmq_consumer_ready_messages") == 4
    assert await shown_by_dashboard(cluster) == (8, 4)
    assert await lag_in_top(cluster) == 8


@pytest.mark.row("PO-14")
async def test_what_comes_again_is_lag_as_well(tmp_path: Path) -> None:
    clock = ManualClock()
    async with popping_cluster(tmp_path, clock) as cluster:
        await some_are_in_flight(cluster)
        broker = cluster.brokers["broker-a"]

        clock.advance(INVISIBLE_MS)
        await aeventually(lambda: broker.store.max_offset(RETRY, 0) == 4)

        listing = await asked(cluster)
        found = families(await page_text(broker.metrics))
        assert {row["topic"]: row["lag"] for row in listing.records if row["lag"]} == {TOPIC: 4, RETRY: 4}
        assert "Diff Total: 8" in listing.notes
        assert await metric(cluster, "rocketmq_consumer_lag_messages", TOPIC) == 4
        assert await metric(cluster, "rocketmq_consumer_lag_messages", RETRY) == 4
        assert [one.value for one in found["pyromq_pop_revives_total"].samples] == [4]

        await popped(broker.pop, 4)

        assert (await asked(cluster)).notes[-1] == "Diff Total: 8"


async def test_a_group_that_never_pops_is_shown_as_before(cluster: Cluster) -> None:
    async with aio.PullConsumer(GROUP, cluster.namesrv_address) as consumer:
        (queue,) = [one for one in await consumer.queues(TOPIC) if one.queue_id == 0]
        await consumer.commit(queue, 4)

    listing = await asked(cluster)

    (row,) = [row for row in listing.records if row["queue"] == 0]
    assert (row["lag"], row["consumer_offset"]) == (6, 4)
    assert "in_flight" not in row
    assert ("#Inflight", "in_flight") not in listing.columns


async def test_a_group_that_is_read_classically_again_is_behind_what_it_commits(cluster: Cluster) -> None:
    pop = cluster.brokers["broker-a"].pop
    await pop.ack(GROUP, TOPIC, await popped(pop, 6))
    async with aio.PullConsumer(GROUP, cluster.namesrv_address) as consumer:
        (queue,) = [one for one in await consumer.queues(TOPIC) if one.queue_id == 0]
        await consumer.commit(queue, 9)

    listing = await asked(cluster)

    (row,) = [row for row in listing.records if row["queue"] == 0]
    assert (row["lag"], row["consumer_offset"]) == (1, 9)
    assert "in_flight" not in row


async def test_metrics_count_pops_by_how_they_ended_and_what_became_of_messages(cluster: Cluster) -> None:
    broker = cluster.brokers["broker-a"]
    pop = broker.pop
    handles = await popped(pop, 10)
    await pop.ack(GROUP, TOPIC, handles[:3])
    # As the kernel has messages ended.
    ended = pop.ending(GROUP, TOPIC, 0)
    assert ended(handles[3].offset, handles[3].popped_at_ms)
    assert not ended(handles[3].offset, handles[3].popped_at_ms)
    await pop.change(GROUP, TOPIC, handles[4], 60_000)
    await pop.pop(PopAsk(GROUP, TOPIC, queue_id=0), 0)
    held = asyncio.ensure_future(pop.pop(PopAsk(GROUP, TOPIC, queue_id=0), 20_000))
    await aeventually(lambda: pop.all_held_count == 1)

    found = families(await page_text(broker.metrics))

    def values(name: str) -> dict[str, float]:
        return {one.labels.get("result", ""): one.value for one in found[name].samples}

    assert values("pyromq_pops_total") == {"found": 1, "nothing": 1}
    assert values("pyromq_pop_acks_total") == {"ok": 4}
    assert values("pyromq_pop_changes_total") == {"ok": 1}
    assert values("pyromq_pop_revives_total") == {"": 0}
    assert values("pyromq_pop_inflight_messages") == {"": 6}
    assert values("pyromq_held_pops") == {"": 1}
    held.cancel()
