import asyncio
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyromq.codes import RequestCode
from pyromq.errors import ListenFailed
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient

#: What every metric has.
BROKER = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
CONFLICT = "pyromq_subscription_conflict_members"


def metrics_cluster(folder: Path, clock: ManualClock | None = None, port: int = 0) -> Cluster:
    return Cluster(
        data_dir=folder, clock=clock, metrics_exporter_type="PROM", metrics_prom_exporter_port=port
    )


async def page(cluster: Cluster) -> dict[str, list[tuple[dict[str, str], float]]]:
    """What the broker's page says: labels and values by name."""
    metrics = cluster.brokers["broker-a"].metrics
    assert metrics is not None
    text = await asyncio.to_thread(_fetch, f"http://127.0.0.1:{metrics.port}/metrics")
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
        return text


async def test_there_is_no_page_unless_it_is_asked_for(cluster: Cluster) -> None:
    assert cluster.brokers["broker-a"].metrics is None


async def test_the_page_counts_members_and_connections(tmp_path: Path) -> None:
    async with metrics_cluster(tmp_path) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        body = heartbeat_body("c1", "readers", {"orders": "*"}, producer_group="senders")
        await client.ask(RequestCode.HEART_BEAT, None, body)

        seen = await page(cluster)

        member = BROKER | {"language": "java", "version": "409"}
        assert seen["rocketmq_consumer_connections"] == [(member | {"consumer_group": "readers"}, 1)]
        assert seen["rocketmq_producer_connections"] == [(member | {"producer_group": "senders"}, 1)]
        assert seen["pyromq_connections"] == [(BROKER, 1)]
        assert seen["pyromq_held_pulls"] == [(BROKER, 0)]


@pytest.mark.row("MM-11")
async def test_a_conflict_of_subscriptions_is_a_metric_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        metrics_cluster(tmp_path, clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as one,
        WireClient(cluster.broker_addresses[0]) as other,
    ):
        for client, tags in ((one, "*"), (other, "paid")):
            body = heartbeat_body(tags, "readers", {"orders": tags})
            await client.ask(RequestCode.HEART_BEAT, None, body)
        assert (await page(cluster))[CONFLICT] == []

        clock.advance(60_000)

        async def told() -> list[tuple[dict[str, str], float]]:
            return (await page(cluster))[CONFLICT]

        assert await aeventually(told) == [(BROKER | {"consumer_group": "readers"}, 1)]
        await other.ask(RequestCode.HEART_BEAT, None, heartbeat_body("paid", "readers", {"orders": "*"}))
        assert await told() == []


async def test_a_port_that_is_taken_stops_the_start_and_names_the_setting(tmp_path: Path) -> None:
    async with metrics_cluster(tmp_path / "one") as cluster:
        metrics = cluster.brokers["broker-a"].metrics
        assert metrics is not None
        with pytest.raises(ListenFailed, match="metricsPromExporterPort"):
            async with metrics_cluster(tmp_path / "other", port=metrics.port):
                pass


async def test_an_exporter_that_is_not_there_is_named_and_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(data_dir=tmp_path, metrics_exporter_type="OTLP_GRPC") as cluster:
        assert cluster.brokers["broker-a"].metrics is None
    assert "metricsExporterType=OTLP_GRPC has no effect" in caplog.text
