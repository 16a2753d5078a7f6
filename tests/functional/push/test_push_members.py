"""Members of a group that come and go."""

from pathlib import Path
from typing import Any

import pytest
from client_faces import Face
from push_stage import FIRST, QUICK, Handler, own, send

import pyromq
from pyromq import (
    Message,
)
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually


@pytest.mark.row("RB-01", "RB-02", "RB-03", "RB-05", "RB-11")
def test_members_share_the_queues_as_they_come_and_go(
    face: Face, address, topic, group, producer, queues
) -> None:
    # No timer within the test: the broker's word alone makes members look.
    told = QUICK | {"rebalance_wait_interval": 60_000}
    handlers = [Handler(), Handler()]
    with face.PushConsumer(group, address, listener=handlers[0], **told, **FIRST) as one:
        one.subscribe(topic)
        eventually(lambda: own(one, topic) == queues)
        with face.PushConsumer(group, address, listener=handlers[1], **told, **FIRST) as two:
            two.subscribe(topic)
            eventually(lambda: (len(own(one, topic)), len(own(two, topic))) == (2, 2))
            assert sorted(own(one, topic) + own(two, topic)) == queues
            bodies = send(producer, topic, 40)
            eventually(lambda: sum(len(handler.got) for handler in handlers) >= 40)
        eventually(lambda: own(one, topic) == queues)

    assert sorted(handlers[0].bodies + handlers[1].bodies) == sorted(bodies)
    assert all(handler.got for handler in handlers)


@pytest.mark.row("RB-02")
def test_new_queues_of_a_topic_are_found(face: Face, address, topic, group, queues) -> None:
    with face.PushConsumer(group, address, listener=Handler(), **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(own(consumer, topic)) == 4)
        with pyromq.Admin(address) as admin:
            admin.create_topic(topic, queue_count=6)

        eventually(lambda: len(own(consumer, topic)) == 6)


@pytest.mark.row("CO-04", "OF-02", "RB-01", "RT-02")
def test_every_broadcasting_member_gets_everything_and_remembers_it_in_a_file(
    face: Face, address, topic, group, producer, queues, tmp_path: Path
) -> None:
    bodies = send(producer, topic, 12)
    handlers = [Handler(lambda _message: False), Handler()]

    def new(number: int, handler: Handler) -> Any:
        consumer = face.PushConsumer(
            group,
            address,
            listener=handler,
            model="broadcasting",
            instance_name=f"member{number}",
            local_offset_store_dir=str(tmp_path),
            **QUICK,
            **FIRST,
        )
        consumer.subscribe(topic)
        return consumer

    with new(0, handlers[0]) as one, new(1, handlers[1]) as two:
        client_ids = [one.client_id, two.client_id]
        eventually(lambda: all(len(handler.got) >= 12 for handler in handlers))
    files = [tmp_path / client_id / group / "offsets.json" for client_id in client_ids]
    assert all(file.exists() for file in files)
    producer.send(Message(topic, b"later"))
    again = Handler()
    with new(0, again):
        eventually(lambda: again.got)

    assert [sorted(handler.bodies) for handler in handlers] == [sorted(bodies)] * 2
    assert again.bodies == [b"later"]


def test_a_consumer_recovers_when_its_broker_was_away(face: Face, tmp_path: Path) -> None:
    handler = Handler()
    with (
        running_cluster(data_dir=tmp_path) as cluster,
        pyromq.Producer("p", cluster.namesrv_address) as sender,
    ):
        sender.send(Message("orders", b"before"))
        with face.PushConsumer(
            "billing", cluster.namesrv_address, listener=handler, **QUICK, **FIRST
        ) as consumer:
            consumer.subscribe("orders")
            eventually(lambda: handler.bodies == [b"before"])
            cluster.stop_broker("broker-a")
            cluster.start_broker("broker-a")
            eventually(lambda: sent(sender, b"after"))
            eventually(lambda: b"after" in handler.bodies, 30)


def sent(producer: pyromq.Producer, body: bytes) -> bool:
    try:
        producer.send(Message("orders", body))
    except pyromq.PyroError:
        return False
    return True
