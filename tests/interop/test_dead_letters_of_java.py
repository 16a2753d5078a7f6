"""Dead letters that Java's consumers leave, replayed by `pyromq dlq`, on our servers and on Apache's."""

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.missing import unavailable
from harness.program import Event, Program
from harness.servers import OURS_AND_APACHES, PYROMQ, Cluster
from harness.toolchains import Unavailable, java_class

from pyromq import DeadLetters, Message, Producer
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

DEADLINE_S = 90
#: Rebalancing sooner than after the 20 s of the defaults.
SOON = ("-Drocketmq.client.rebalance.waitInterval=1000", "-Drocketmq.client.rebalance.lockInterval=500")
_numbers = itertools.count(1)


@pytest.fixture(params=OURS_AND_APACHES)
def servers(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> Cluster:
    """Our servers, and Apache's."""
    return running(request.param)


@pytest.fixture
def java(servers: Cluster, tmp_path: Path) -> Iterator[Program]:
    """Consumers of the 4.9.8 client that do as a message's body says."""
    try:
        command = java_class("Kinds", "4.9.8", [f"-Duser.home={tmp_path}", *SOON])
    except Unavailable as error:
        unavailable(error)
    program = Program([*command, servers.name_server], folder=tmp_path, env=dict(os.environ))
    yield program
    program.close()


@pytest.fixture
def names() -> tuple[str, str]:
    """A topic and a group of this test alone."""
    number = next(_numbers)
    return f"dead_{number}", f"dead_group_{number}"


def dlq(servers: Cluster, *words: str) -> list[dict[str, Any]]:
    """Run `pyromq dlq`, which must succeed, and return what it says."""
    ended = subprocess.run(
        [*PYROMQ, "dlq", *words, "-n", servers.name_server, "--json"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return [json.loads(line) for line in ended.stdout.splitlines()]


def consumed(java: Program, member: str) -> list[Event]:
    return [event for event in java.of("consumed") if event["member"] == member]


def replays(java: Program, member: str) -> list[Event]:
    return [event for event in consumed(java, member) if "REPLAYED_FROM" in event["properties"]]


@pytest.mark.row("RT-11", "RT-12")
def test_what_java_gave_up_comes_to_java_again_and_to_no_other_group(
    servers: Cluster, java: Program, names: tuple[str, str]
) -> None:
    topic, group = names
    with Producer("dead_producer", servers.name_server) as producer, DeadLetters(servers.name_server) as dead:
        sent = producer.send(Message(topic, b"soon", keys=["k1"], tags="paid", properties={"city": "Oslo"}))
        # Two tries, a second apart; then it is given up.
        java.do("join", "mine", group, topic, "concurrent", "*", 1, 1)
        java.do("join", "theirs", f"other_{group}", topic, "concurrent", "nothing", 1, 1)
        eventually(lambda: len(list(dead.read(group))) == 1, DEADLINE_S)

        (listed,) = dlq(servers, "list", group)
        (would, _) = dlq(servers, "replay", group, "--key", "k1", "--dry-run")
        (result, total) = dlq(servers, "replay", group, "--key", "k1")
        eventually(lambda: len(replays(java, "mine")) == 2, DEADLINE_S)
        eventually(lambda: len(list(dead.read(group))) == 2, DEADLINE_S)
        again = dlq(servers, "replay", group, "--all", "--dry-run")

    assert (listed["topic"], listed["tags"], listed["keys"]) == (topic, "paid", ["k1"])
    assert (listed["message_id"], listed["first_id"]) == (sent.message_id, sent.offset_message_id)
    assert listed["tries"] == 2
    assert (would["outcome"], result["outcome"], total["replayed"]) == ("would-replay", "replayed", 1)
    assert [event["times"] for event in replays(java, "mine")] == [0, 1]
    assert {event["topic"] for event in replays(java, "mine")} == {topic}
    first = replays(java, "mine")[0]
    assert first["properties"]["REPLAYED_FROM"] == listed["dead_letter_id"]
    assert first["properties"]["ORIGIN_MESSAGE_ID"] == sent.offset_message_id
    assert (first["properties"]["city"], first["properties"]["UNIQ_KEY"]) == ("Oslo", sent.message_id)
    assert (first["queue"], first["offset"]) == (result["queue"], result["offset"])
    # It died again: the new dead letter is to be replayed, the old one is not.
    assert [one["outcome"] for one in again[:2]] == ["skipped", "would-replay"]
    assert consumed(java, "theirs") == []


@pytest.mark.row("RT-11")
def test_a_dead_letter_is_replayed_to_its_topic_for_every_group(
    servers: Cluster, java: Program, names: tuple[str, str]
) -> None:
    topic, group = names
    with Producer("dead_producer", servers.name_server) as producer, DeadLetters(servers.name_server) as dead:
        producer.send(Message(topic, b"never"))
        java.do("join", "mine", group, topic, "concurrent", "*", 0, 1)
        eventually(lambda: len(list(dead.read(group))) == 1, DEADLINE_S)

        (result, _) = dlq(servers, "replay", group, "--all", "--to-topic")
        java.do("join", "theirs", f"other_{group}", topic, "concurrent", "*", 0, 1)
        eventually(lambda: len(replays(java, "theirs")) == 1, DEADLINE_S)
        eventually(lambda: len(replays(java, "mine")) == 1, DEADLINE_S)

    assert (result["outcome"], result["destination"]) == ("replayed", topic)


def test_a_group_that_consumes_orderly_is_told_what_5_x_does_with_its_dead_letters(
    servers: Cluster, java: Program, names: tuple[str, str]
) -> None:
    topic, group = names
    with Producer("dead_producer", servers.name_server) as producer, DeadLetters(servers.name_server) as dead:
        producer.send(Message(topic, b"later"))
        java.do("join", "mine", group, topic, "orderly", "*", 0, 1)
        eventually(lambda: len(list(dead.read(group))) == 1, DEADLINE_S)

        (result,) = dead.replay(group)

        if servers.kind == "apache-5":
            assert "instead of %RETRY%" in str(result.error)
            assert [one.outcome for one in dead.rehearse(group)] == ["skipped", "would-replay"]
        else:
            assert result.outcome == "replayed"
            eventually(lambda: len(replays(java, "mine")) == 1, DEADLINE_S)
