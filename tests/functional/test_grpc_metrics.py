"""What the metrics of a broker say of RocketMQ 5's SDKs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc_sdk import Sdk, message, resource
from metrics_page import families, page_text

from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.grpc import grpc_messages as pb

TOPIC = "orders"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(
        data_dir=tmp_path, has_grpc=True, metrics_exporter_type="PROM", metrics_prom_exporter_port=0
    ) as cluster:
        cluster.brokers["broker-a"].topics.put(TopicConfig(topic_name=TOPIC))
        yield cluster


async def values(cluster: Cluster, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric, by these labels."""
    found = families(await page_text(cluster.brokers["broker-a"].metrics))
    samples = found[name].samples if name in found else []
    return {tuple(one.labels[label] for label in labels): one.value for one in samples}


async def test_calls_are_counted_by_rpc_and_code(cluster: Cluster) -> None:
    [address] = cluster.grpc_addresses
    async with Sdk(address) as sdk, Sdk(address, client_id=None) as nobody:
        await sdk.stored(message(TOPIC))
        await sdk.stored(message(TOPIC))
        unknown = await sdk.send(message("nowhere"))
        refused = await nobody.send(message(TOPIC))

        calls = await values(cluster, "pyromq_grpc_calls_total", "rpc", "code")

    assert (unknown.status.code, refused.status.code) == (40402, 40017)
    assert calls == {
        ("send_message", "ok"): 2,
        ("send_message", "topic_not_found"): 1,
        ("send_message", "client_id_required"): 1,
    }


async def test_connections_streams_and_clients_are_those_that_are_there(cluster: Cluster) -> None:
    [address] = cluster.grpc_addresses
    async with Sdk(address) as sdk:
        stream = sdk.telemetry()
        topics = [resource(TOPIC)]
        await stream.settings(pb.Settings(client_type=1, publishing=pb.Publishing(topics=topics)))

        there = [
            await values(cluster, f"pyromq_grpc_{name}") for name in ("connections", "streams", "clients")
        ]
        stream.cancel()

        async def is_over() -> bool:
            return await values(cluster, "pyromq_grpc_streams") == {(): 0}

        await aeventually(is_over)

    assert there == [{(): 1}, {(): 1}, {(): 1}]


async def test_calls_are_timed_beside_those_of_remoting(cluster: Cluster) -> None:
    [address] = cluster.grpc_addresses
    async with Sdk(address) as sdk:
        await sdk.stored(message(TOPIC))

    found = families(await page_text(cluster.brokers["broker-a"].metrics))["rocketmq_rpc_latency"]
    (count,) = [
        one.value
        for one in found.samples
        if one.name.endswith("_count") and one.labels["protocol_type"] == "grpc"
    ]
    assert count == 1
