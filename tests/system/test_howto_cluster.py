"""docs/howto/cluster.md: its commands, typed in order, on ports of the test's own, while somebody sends."""

import json
import threading
from pathlib import Path

import pytest
from howto import Block, blocks
from typed_page import TypedPage, typed_page

from pyromq import Message, Producer, PullConsumer, PullStatus, SendResult, SendStatus
from pyromq.errors import PyroError
from pyromq.testing.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "cluster.md"
PORTS = (2379, 2380, 2479, 2480, 2579, 2580, 9876, 9877, 10911, 10921, 10931)
NAME_SERVERS = "127.0.0.1:9876;127.0.0.1:9877"
DEADLINE_S = 60
TOPIC = "upgraded"

pytestmark = pytest.mark.timeout(900)


class Sending:
    """A producer that sends again what fails, until it is told to stop."""

    def __init__(self, name_servers: str) -> None:
        self.sent: list[tuple[bytes, SendResult]] = []
        self._name_servers = name_servers
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> "Sending":
        self._thread.start()
        eventually(lambda: self.sent, DEADLINE_S, what="somebody sends")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_S)

    def _send(self) -> None:
        with Producer("upgraders", self._name_servers) as producer:
            number = 0
            while not self._is_over.wait(0.01):
                body = f"message {number}".encode()
                try:
                    result = producer.send(Message(TOPIC, body))
                except PyroError:
                    continue
                if result.status is SendStatus.SEND_OK:
                    self.sent.append((body, result))
                    number += 1


def replicas(page: TypedPage) -> list[dict[str, object]]:
    """Return the replicas as the page's command shows them."""
    found: list[dict[str, object]] = json.loads(
        page.type("pyromq admin replicas --json || true") or "{}"
    ).get("replicas", [])
    return found


def is_whole(page: TypedPage) -> bool:
    """Return whether all three are in sync."""
    found = replicas(page)
    return len(found) == 3 and all(one["isInSync"] for one in found)


def stored(name_servers: str) -> dict[tuple[int, int], bytes]:
    """Return the topic's messages by queue and offset."""
    found = {}
    with PullConsumer("upgrade_readers", name_servers) as consumer:
        for queue in consumer.queues(TOPIC):
            offset = consumer.min_offset(queue)
            while (pulled := consumer.pull(queue, offset)).status is PullStatus.FOUND:
                found.update({(queue.queue_id, one.queue_offset): one.body for one in pulled.messages})
                offset = pulled.next_offset
    return found


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What was seen while the page was typed."""
    told: dict[str, object] = {}
    with typed_page(tmp_path_factory.mktemp("cluster"), PORTS) as page:
        page.export("NAMESRV_ADDR", NAME_SERVERS)
        parts = blocks(PAGE)
        loss, upgrade = (find(parts, words) for words in ("kill -9", "switchMaster"))
        name_servers = page.told(NAME_SERVERS)
        for block in parts:
            if block.when == "whole":
                eventually(lambda: is_whole(page), DEADLINE_S, what="all replicas are in sync")
            if block is upgrade:
                with Sending(name_servers) as sending:
                    told["upgraded"] = page.type(block)
                told["sent"], told["stored"] = sending.sent, stored(name_servers)
                eventually(lambda: is_whole(page), DEADLINE_S, what="all are in sync again")
                told["replicas"] = replicas(page)
            elif block is loss:
                told["lost"] = page.type(block)
            else:
                page.type(block)
    return told


def find(parts: list[Block], words: str) -> Block:
    """Return the block of commands that has these words."""
    return next(block for block in parts if words in block.text)


@pytest.mark.row("HA-09", "HA-10")
def test_a_machine_is_lost_and_both_messages_are_there(story: dict[str, object]) -> None:
    assert "before the loss" in str(story["lost"])
    assert str(story["lost"]).count("after the loss") == 1


def test_an_upgrade_of_all_brokers_loses_nothing_that_was_acknowledged(story: dict[str, object]) -> None:
    sent, kept = story["sent"], story["stored"]
    assert isinstance(sent, list)
    assert isinstance(kept, dict)
    assert [body for body, one in sent if kept.get((one.queue.queue_id, one.queue_offset)) != body] == []
    assert len({(one.queue.queue_id, one.queue_offset) for _, one in sent}) == len(sent) > 0


def test_after_the_upgrade_all_replicas_are_in_sync(story: dict[str, object]) -> None:
    shown = story["replicas"]
    assert isinstance(shown, list)
    assert [one["isInSync"] for one in shown] == [True, True, True]
    assert "is master now" in str(story["upgraded"])
