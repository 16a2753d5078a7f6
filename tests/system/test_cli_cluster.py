"""`pyromq up --brokers N --replicas N`: a cluster of real processes, some of which are killed."""

import json
import os
import re
import shlex
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from etcd import running_etcd
from harness.ports import free_broker_port

from pyromq.cli.servers.local_cluster import PORT_STEP
from pyromq.testing.waiting import eventually

# The fixtures `shell` and `up` are in conftest.py, and so are their types.
Up = Any
DEADLINE_S = 60.0
#: The whole line: it may be written while it is read.
KILLED = re.compile("^.*broker-b .* was ended by SIGKILL.* To start it again: (.*)\n", re.MULTILINE)


def free_ports_in_a_row() -> int:
    """Return the first port of a cluster of two brokers."""
    ports = [free_broker_port() for _ in range(3)]
    while ports[2] - ports[0] != PORT_STEP:
        ports = [*ports[1:], free_broker_port()]
    return ports[0]


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(hello: dict[str, Any]) -> list[int]:
    return [broker["pid"] for broker in hello["brokers"]]


def kill(hello: dict[str, Any], at: int) -> None:
    os.kill(pids(hello)[at], signal.SIGKILL)


def members(shell: Any, address: str) -> list[tuple[str, int]]:
    lines = shell.output_of("admin", "clusterList", "-n", address, "--json").splitlines()
    return [(one["broker_name"], one["broker_id"]) for one in map(json.loads, lines)]


def master_address(shell: Any, address: str) -> str | None:
    lines = shell.output_of("admin", "clusterList", "-n", address, "--json").splitlines()
    return next((one["address"] for one in map(json.loads, lines) if one["broker_id"] == 0), None)


def are_in_sync(shell: Any, address: str, count: int) -> bool:
    """Whether so many replicas have all that the master has: each of them may be the next master."""
    ended = shell.run("admin", "replicas", "-n", address, "--json")
    replicas = json.loads(ended.stdout).get("replicas", []) if ended.returncode == 0 else []
    return len(replicas) == count and all(one["isInSync"] for one in replicas)


def sends(shell: Any, address: str, topic: str, count: int) -> list[str]:
    """Send messages one by one, and return the names of the brokers that took them."""
    out = shell.output_of("produce", "-n", address, topic, *(f"m{number}" for number in range(count)))
    return re.findall(r"^SEND_OK +\S+ → (\S+)", out, re.MULTILINE)


def is_sent(shell: Any, address: str, topic: str) -> bool:
    """Whether a message is taken, and is as safe as it should be."""
    return "SEND_OK" in shell.run("produce", "-n", address, topic, "one").stdout


def read(shell: Any, address: str, topic: str) -> list[str]:
    return sorted(shell.output_of("consume", "-n", address, topic, "--body-only").split())


def brokers_of(shell: Any, address: str, topic: str) -> list[str]:
    """Return the names of the brokers that have a topic."""
    route = json.loads(shell.output_of("admin", "topicRoute", "-n", address, "-t", topic))
    return [broker["brokerName"] for broker in route["brokerDatas"]]


@pytest.mark.row("HA-10", "HA-01")
def test_masters_and_slaves_with_synchronous_double_write(shell: Any, up: Up, tmp_path: Path) -> None:
    server = up("--brokers", "2", "--replicas", "2", "--sync")
    hello = server.ready()
    address = hello["namesrv"]

    assert [(one["name"], one["number"], one["role"]) for one in hello["brokers"]] == [
        ("broker-a", 0, "SYNC_MASTER"),
        ("broker-a", 1, "SLAVE"),
        ("broker-b", 0, "SYNC_MASTER"),
        ("broker-b", 1, "SLAVE"),
    ]
    assert members(shell, address) == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
    for name in ("broker-a", "broker-a-1", "broker-b", "broker-b-1"):
        assert (tmp_path / "data" / name / "commitlog").is_dir()
        assert name in server.out
    # A send is only SEND_OK when a slave has it too; the slaves are there when `up` is ready or soon after.
    eventually(lambda: is_sent(shell, address, "hello"), DEADLINE_S, what="both replicas have a message")

    assert server.stop() == 0
    assert not any(map(lives, pids(hello)))
    assert not server.ready_file.exists()
    assert not [broker for broker in hello["brokers"] if (Path(broker["data"]) / "abort").exists()]


@pytest.mark.row("HA-10", "HA-07")
def test_masters_and_slaves_with_asynchronous_copies(shell: Any, up: Up) -> None:
    server = up("--replicas", "2")
    hello = server.ready()
    address = hello["namesrv"]
    assert [one["role"] for one in hello["brokers"]] == ["ASYNC_MASTER", "SLAVE"]
    assert len(sends(shell, address, "hello", 3)) == 3
    eventually(lambda: _sizes_agree(hello["brokers"]), DEADLINE_S, what="the slave has what its master has")
    # The log brings a topic, and the slave asks its master for it.
    topics = Path(hello["brokers"][1]["data"]) / "config" / "topics.json"
    eventually(lambda: "hello" in topics.read_text(), DEADLINE_S, what="the slave has the topic")

    kill(hello, 0)

    eventually(lambda: members(shell, address) == [("broker-a", 1)], DEADLINE_S, what="the master is gone")
    assert read(shell, address, "hello") == ["m0", "m1", "m2"]


@pytest.mark.row("HA-08", "HA-10", "HA-11", "AD-07")
def test_of_several_masters_one_dies_and_what_is_unread_on_it_waits_until_it_is_back(
    shell: Any, tmp_path: Path
) -> None:
    # One of them comes back where it was: no connection may take its port meanwhile.
    port = free_ports_in_a_row()
    server = shell.serve(
        *("up", "--brokers", "2", "--data", str(tmp_path / "data")),
        *("--namesrv-port", "0", "--broker-port", str(port)),
    )
    hello = server.ready()
    address = hello["namesrv"]
    shell.output_of("admin", "updateTopic", "-n", address, "-t", "orders", "-c", "DefaultCluster")
    took = sends(shell, address, "orders", 16)
    assert set(took) == {"broker-a", "broker-b"}

    kill(hello, 1)

    eventually(lambda: members(shell, address) == [("broker-a", 0)], DEADLINE_S, what="broker-b is gone")
    # Writing goes on, on the other one; of what was sent before, only its part can be read.
    assert sends(shell, address, "orders", 3) == ["broker-a"] * 3
    assert len(read(shell, address, "orders")) == took.count("broker-a") + 3
    (command,) = eventually(lambda: KILLED.findall(server.err), DEADLINE_S, what="it is said")

    shell.serve(*shlex.split(command)[1:]).ready()

    assert len(read(shell, address, "orders")) == 16 + 3

    server.stop(signal.SIGKILL)

    # No broker outlives the process that started it; it stops as it always does.
    eventually(lambda: not lives(pids(hello)[0]), DEADLINE_S, what="broker-a has stopped")
    assert not (Path(hello["brokers"][0]["data"]) / "abort").exists()


@pytest.mark.row("HA-09")
def test_with_failover_a_slave_takes_over_from_a_master_that_is_killed(
    shell: Any, up: Up, tmp_path: Path
) -> None:
    with running_etcd(tmp_path / "etcd") as etcd:
        server = up("--replicas", "2", "--sync", "--failover", etcd.address)
        hello = server.ready()
        address = hello["namesrv"]
        eventually(lambda: are_in_sync(shell, address, 2), DEADLINE_S, what="both are in sync")
        assert len(sends(shell, address, "hello", 3)) == 3
        master = master_address(shell, address)
        assert master is not None
        (pid,) = (broker["pid"] for broker in hello["brokers"] if broker["broker"] == master)

        os.kill(pid, signal.SIGKILL)

        eventually(
            lambda: master_address(shell, address) not in (None, master), DEADLINE_S, what="another is master"
        )
        eventually(lambda: is_sent(shell, address, "hello"), DEADLINE_S, what="the new master takes messages")
        assert set(read(shell, address, "hello")) == {"m0", "m1", "m2", "one"}
        assert server.stop() == 0


def test_messages_and_settings_are_there_after_a_restart_of_the_cluster(shell: Any, up: Up) -> None:
    shape = ("--brokers", "2", "--cluster-name", "Test", "--set", "defaultTopicQueueNums=1")
    first = up(*shape, "--json")
    hello = first.ready()
    assert json.loads(first.out) == hello
    assert len({broker["broker"] for broker in hello["brokers"]}) == 2
    took = sends(shell, hello["namesrv"], "kept", 4)
    assert first.stop() == 0

    again = up(*shape).ready()["namesrv"]

    assert read(shell, again, "kept") == ["m0", "m1", "m2", "m3"]
    assert set(took) == {"broker-a", "broker-b"}
    lines = shell.output_of("admin", "clusterList", "-n", again, "--json").splitlines()
    assert {json.loads(line)["cluster"] for line in lines} == {"Test"}


def test_a_broker_for_each_core_and_a_new_topic_is_on_all_of_them(shell: Any, up: Up) -> None:
    hello = up("--brokers", "auto").ready()
    address = hello["namesrv"]
    names = {one["name"] for one in hello["brokers"]}

    assert len(names) == len(os.sched_getaffinity(0))
    assert is_sent(shell, address, "hello")
    eventually(
        lambda: set(brokers_of(shell, address, "hello")) == names, DEADLINE_S, what="all brokers have it"
    )


def test_a_port_that_is_taken_is_told_and_nothing_is_left_running(shell: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        ended = shell.run(
            *("up", "--brokers", "2", "--data", str(tmp_path / "data"), "--namesrv-port", "0"),
            *("--broker-port", str(port)),
        )

    assert ended.returncode == 1
    assert f"broker-a did not start: pyromq: the broker cannot listen on 127.0.0.1:{port}" in ended.stderr
    for folder in (tmp_path / "data").glob("broker-*"):
        assert not (folder / "abort").exists()


def test_synchronous_copies_need_a_second_replica(shell: Any) -> None:
    ended = shell.run("up", "--sync")

    assert ended.returncode == 2
    assert "--replicas 2" in ended.stderr


def _sizes_agree(brokers: list[dict[str, Any]]) -> bool:
    """Whether the logs have the same bytes."""
    logs = [sorted((Path(broker["data"]) / "commitlog").iterdir()) for broker in brokers]
    return all(log for log in logs) and len({_head(log[0]) for log in logs}) == 1


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4_096)
