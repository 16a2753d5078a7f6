import json
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, Producer
from pyromq.testing.cluster import running_cluster

Up = Callable[..., Any]


def records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a broker that took some messages and was stopped; tests leave it as it was."""
    folder = tmp_path_factory.mktemp("stopped")
    with (
        running_cluster(data_dir=folder, max_hash_slot_num=5_000_000, max_index_num=20_000_000) as cluster,
        Producer("producers", cluster.namesrv_address) as producer,
    ):
        for _ in range(40):
            producer.send(Message("orders", b"paid", tags="A", keys=["42"]))
        producer.send(Message("orders", b"later", delay_level=18))
    return folder


def test_a_broker_that_stopped_in_order_left_a_whole_store(shell: Any, stopped: Path) -> None:
    said = shell.output_of("store", "verify", str(stopped))

    assert "everything is whole" in said
    assert "stopped in order; 41 messages" in said


def test_a_program_reads_the_report_as_json(shell: Any, stopped: Path) -> None:
    (report,) = records(shell.output_of("store", "verify", str(stopped / "broker-a"), "--json"))

    assert report["event"] == "verified"
    assert report["is_whole"] is True
    assert (report["records"], report["queue_entries"], report["faults"]) == (41, 41, 0)
    assert report["tables"] >= 1


def test_a_flipped_bit_is_named_with_file_place_and_remedy_and_the_status_is_one(
    shell: Any, stopped: Path
) -> None:
    log = stopped / "broker-a" / "commitlog" / f"{0:020d}"
    with log.open("r+b", buffering=0) as file:
        file.seek(90)
        file.write(b"\xff")
        ended = shell.run("store", "verify", str(stopped))
        as_json = shell.run("store", "verify", str(stopped), "--json")
        file.seek(90)
        file.write(b"paid"[2:3])

    assert ended.returncode == as_json.returncode == 1
    assert f"fault {log} at byte 0" in ended.stdout
    assert "checksum" in ended.stdout
    assert "→ put the file back" in ended.stdout
    fault, report = records(as_json.stdout)
    assert (fault["event"], fault["file"], fault["position"]) == ("fault", str(log), 0)
    assert (report["is_whole"], report["faults"]) == (False, 1)


def test_two_processes_find_what_one_finds(shell: Any, stopped: Path) -> None:
    alone = shell.output_of("store", "verify", str(stopped), "--json", "--jobs", "1")
    shared = shell.output_of("store", "verify", str(stopped), "--json", "--jobs", "2")

    assert alone == shared


@pytest.mark.parametrize(
    "arguments",
    [("verify", "nowhere"), ("dump", "nowhere"), ("verify",), ("verify", ".", "--set", "maxHashSlotNum=x")],
    ids=["no store", "no store to dump", "no folder", "a bad setting"],
)
def test_misuse_has_the_status_two(shell: Any, arguments: tuple[str, ...]) -> None:
    ended = shell.run("store", *arguments)

    assert ended.returncode == 2
    assert ended.stderr


def test_a_running_broker_s_store_is_whole_at_any_moment_and_is_not_disturbed(shell: Any, up: Up) -> None:
    server = up("--set", "mappedFileSizeCommitLog=1048576", "--set", "maxMessageSize=65536")
    ready = server.ready()
    sender = shell.start(
        "produce", "-n", ready["namesrv"], "busy", "x" * 500, "--key", "k", "--count", "6000"
    )

    reports = []
    while sender.process.poll() is None:
        (report,) = records(shell.output_of("store", "verify", ready["data"], "--json"))
        reports.append(report)

    assert sender.wait() == 0
    assert reports
    assert {report["state"] for report in reports} == {"a broker has it open"}
    assert len(shell.output_of("store", "dump", ready["data"], "--topic", "busy").splitlines()) == 6000
    assert server.stop() == 0


def test_a_killed_broker_s_store_is_whole(shell: Any, up: Up) -> None:
    server = up()
    ready = server.ready()
    shell.output_of("produce", "-n", ready["namesrv"], "busy", "x", "--count", "300")
    server.stop(signal.SIGKILL)

    (report,) = records(shell.output_of("store", "verify", ready["data"], "--json"))

    assert report["state"] == "not stopped in order"
    assert report["records"] == 300


def test_messages_are_dumped_for_people(shell: Any, stopped: Path) -> None:
    lines = shell.output_of("store", "dump", str(stopped), "--topic", "orders").splitlines()

    assert len(lines) == 40
    assert all("orders:" in line and "A  42  paid" in line for line in lines)


def test_messages_are_dumped_for_programs_with_all_their_fields(shell: Any, stopped: Path) -> None:
    (one,) = records(shell.output_of("store", "dump", str(stopped), "--json", "--limit", "1"))
    again = records(
        shell.output_of("store", "dump", str(stopped), "--json", "--position", str(one["position"]))
    )
    found = records(
        shell.output_of("store", "dump", str(stopped), "--topic", "orders", "--key", "42", "--json")
    )

    assert one["topic"] == "orders"
    assert one["body"] == "paid"
    assert one["properties"]["KEYS"] == "42"
    assert one["faults"] == []
    assert {"queue", "offset", "size", "born_host", "stored_at_ms", "sys_flag", "body_crc"} < one.keys()
    assert again == [one]
    assert len(found) == 40


def documented_commands() -> list[list[str]]:
    text = (Path(__file__).parents[2] / "docs/howto/inspect-a-store.md").read_text()
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("    pyromq store ")]


@pytest.mark.parametrize("command", documented_commands(), ids=" ".join)
def test_a_documented_command_works(shell: Any, stopped: Path, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "broker.conf").write_text("brokerName=broker-a\n")

    # Offset 100 of a queue is not there; everything else is.
    ended = shell.run(*[str(stopped) if word == "DIR" else word for word in command])

    assert ended.returncode == (1 if "100" in command else 0), ended.stderr


def test_nothing_to_dump_has_the_status_one(shell: Any, stopped: Path) -> None:
    ended = shell.run("store", "dump", str(stopped), "--topic", "nobody")

    assert ended.returncode == 1
    assert "no message is like that" in ended.stderr
