import socket
import sys
from pathlib import Path

import pytest

from pyromq.client.aio.producer import Producer as AsyncProducer
from pyromq.client.sync.producer import Producer
from pyromq.client.sync.pull_consumer import PullConsumer
from pyromq.clock import SystemClock
from pyromq.errors import ConfigError
from pyromq.model import ConsumeFrom, Message, SendStatus
from pyromq.testing.cluster import Cluster, running_cluster
from pyromq.testing.shifted_clock import ShiftedClock
from pyromq.testing.waiting import eventually


def read_all(address: str, topic: str, group: str) -> list[bytes]:
    with PullConsumer(group, name_server=address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        # The name server hears of a topic that a message made a little later.
        eventually(lambda: consumer.fetch_message_queues(topic))
        return [message.body for message in consumer.messages(topic, idle_ms=200)]


async def test_a_cluster_on_this_loop_takes_a_send() -> None:
    async with Cluster() as cluster, AsyncProducer("g", name_server=cluster.namesrv_address) as producer:
        result = await producer.send(Message("t", b"x"))

    assert result.status is SendStatus.SEND_OK
    assert result.queue.broker_name == "broker-a"


def test_a_cluster_on_a_thread_serves_blocking_clients() -> None:
    with running_cluster() as cluster:
        with Producer("g", name_server=cluster.namesrv_address) as producer:
            producer.send(Message("t", b"x"))

        assert read_all(cluster.namesrv_address, "t", "readers") == [b"x"]


def test_brokers_have_names_addresses_and_settings_of_their_own() -> None:
    with running_cluster(brokers=2, default_topic_queue_nums=2) as cluster:
        with Producer("g", name_server=cluster.namesrv_address) as producer:
            producer.send(Message("t", b"x"))
        addresses = cluster.broker_addresses

    assert len(set(addresses)) == 2


def test_a_broker_that_is_stopped_and_started_has_its_messages_and_its_address() -> None:
    with running_cluster() as cluster:
        with Producer("g", name_server=cluster.namesrv_address) as producer:
            producer.send(Message("t", b"kept"))
        before = cluster.broker_addresses

        cluster.stop_broker("broker-a")
        cluster.start_broker("broker-a")

        assert cluster.broker_addresses == before
        assert read_all(cluster.namesrv_address, "t", "readers") == [b"kept"]


@pytest.mark.skipif(sys.platform != "linux", reason="ports are held on Linux only")
def test_while_a_broker_is_stopped_nobody_else_gets_its_port() -> None:
    with running_cluster() as cluster:
        host, port = cluster.broker_addresses[0].split(":")
        cluster.stop_broker("broker-a")

        with socket.socket() as somebody_else, pytest.raises(OSError, match="in use"):
            somebody_else.bind((host, int(port)))


def test_data_in_a_given_folder_outlives_the_cluster(tmp_path: Path) -> None:
    with (
        running_cluster(data_dir=tmp_path) as cluster,
        Producer("g", name_server=cluster.namesrv_address) as producer,
    ):
        producer.send(Message("t", b"kept"))

    with running_cluster(data_dir=tmp_path) as cluster:
        assert read_all(cluster.namesrv_address, "t", "readers") == [b"kept"]


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="no_such_setting"), running_cluster(no_such_setting=1):
        pass


@pytest.mark.parametrize("wait", [{"delay_level": 3}, {"delay": 10}, {"delay": 86_400}])
async def test_a_cluster_has_caught_up_when_what_is_due_is_delivered(wait: dict[str, int]) -> None:
    clock = ShiftedClock()
    async with Cluster(clock=clock) as cluster, AsyncProducer("g", cluster.namesrv_address) as producer:
        store = cluster.brokers["broker-a"].store
        queue = (await producer.send(Message("t", b"x", **wait))).queue

        since = clock.advance(wait.get("delay", 10) * 1_000)
        assert store.max_offset("t", queue.queue_id) == 0
        await cluster.catch_up(since)

        assert store.max_offset("t", queue.queue_id) == 1


async def test_a_name_server_with_the_machines_time_knows_brokers_whose_time_jumps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ShiftedClock()
    async with Cluster(clock=clock, namesrv_clock=SystemClock()) as cluster:
        clock.advance(86_400_000)
        cluster.name_server.drop_silent()

    assert "dropped" not in caplog.text
