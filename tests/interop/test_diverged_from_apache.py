"""A slave of ours whose log is not the beginning of its master's, which is Apache's."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.observer import Observer
from harness.replicas import APACHE, BROKER, OURS, Log, Replica, start_name_server
from harness.toolchains import Unavailable

from pyromq import Admin, Message, MessageQueue, Producer
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

TOPIC = "parted"
PATIENCE_S = 60


def fill(name_server: str, texts: list[str]) -> None:
    """Send messages to the group's master."""
    with Admin(name_server) as admin:
        admin.create_topic(TOPIC, 1)
    eventually(lambda: Observer(name_server).queues(TOPIC), PATIENCE_S, what="the topic has a route")
    with Producer("parted_producer", name_server) as producer:
        for text in texts:
            producer.send(Message(TOPIC, text.encode()), queue=MessageQueue(TOPIC, BROKER, 0))


def tell(folder: Path, closing: ExitStack) -> tuple[Replica, Replica, Log]:
    """Let a master of ours have messages of its own, and then be the slave of one of Apache's."""
    ours = Replica(OURS, folder / "ours", alone := start_name_server(OURS, folder / "alone", closing), 0)
    closing.callback(ours.kill)
    ours.start()
    fill(alone, ["mine 1", "mine 2", "mine 3"])
    assert ours.server.stop() == 0
    before = ours.log()
    name_server = start_name_server(OURS, folder / "names", closing)
    apache = Replica(APACHE, folder / "apache", name_server, 0)
    closing.callback(apache.kill)
    apache.start()
    fill(name_server, [f"theirs {number}" for number in range(10)])
    ours.become(1, name_server)
    ours.start()
    return ours, apache, before


def test_our_slave_of_an_apache_master_with_another_log_says_so_and_copies_nothing(tmp_path: Path) -> None:
    with ExitStack() as closing:
        try:
            ours, apache, before = tell(tmp_path, closing)
        except Unavailable as error:
            unavailable(error)
        ours.server.wait_for_text("The two logs do not fit, and nothing is copied", PATIENCE_S)
        assert ours.log() == before
        assert apache.log().end > before.end
        stored = Observer("").read(ours.address, TOPIC, 0)
    assert [message.body for message in stored] == [b"mine 1", b"mine 2", b"mine 3"]
