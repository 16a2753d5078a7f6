"""What `pyromq doctor` finds of groups that pop, and of a gRPC port that could not be opened."""

import socket
from pathlib import Path

from doctor_stage import DoctorStage
from staged_files import StagedFiles

from pyromq import Message, aio
from pyromq.broker.pop.pop_asks import PopAsk
from pyromq.client.plans.admin.scaling_plans import TopicUpdate
from pyromq.codes import RequestCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.registration_bodies import decode_key_values

GROUP, TOPIC = "readers", "orders"


async def popped(cluster: Cluster, count: int) -> None:
    """Store ten messages in one queue, and pop some of them."""
    async with aio.Admin(cluster.namesrv_address) as admin:
        await admin.update_topic(TopicUpdate(topic=TOPIC, read_queue_count=1, write_queue_count=1))
        await admin.update_group(SubscriptionGroupConfig(group_name=GROUP))
    async with aio.Producer("senders", cluster.namesrv_address) as producer:
        for number in range(10):
            await producer.send(Message(TOPIC, b"%d" % number))
    got = await cluster.brokers["broker-a"].pop.pop(PopAsk(GROUP, TOPIC, count_max=count, from_min=True), 0)
    assert sum(len(part.offsets) for part in got.parts) == count


async def test_a_queue_that_is_full_of_what_is_in_flight_is_found_and_the_advice_helps(
    tmp_path: Path,
) -> None:
    async with Cluster(data_dir=tmp_path, pop_inflight_message_threshold=5) as cluster:
        await popped(cluster, 5)
        stage = DoctorStage(cluster.namesrv_address)

        examined = await stage.aexamine("--only", "pops")

        (finding,) = examined.found
        assert (finding["check"], finding["severity"]) == ("pops", "problem")
        assert finding["facts"] == {"group": GROUP, "queues": {"broker-a:0": 5}}
        await stage.afollow(finding)
        assert (await stage.aexamine("--only", "pops")).found == []


async def test_a_group_that_pops_and_is_well_is_not_found(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path, files=StagedFiles()) as cluster:
        await popped(cluster, 3)

        examined = await DoctorStage(cluster.namesrv_address).aexamine("--watch", "0.1", "--skip", "lag")

        assert examined.found == []


async def test_the_runtime_table_says_where_sdks_connect(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with Cluster(data_dir=tmp_path, grpc_server_port=port) as cluster:
        async with WireClient(cluster.broker_addresses[0]) as client:
            answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = decode_key_values(answer.body).table

        assert table["grpcAddress"] == f"127.0.0.1:{port}"
        assert "whyNoGrpc" not in table
        assert (await DoctorStage(cluster.namesrv_address).aexamine("--only", "door")).found == []
