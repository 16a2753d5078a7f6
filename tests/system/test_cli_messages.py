import json
from typing import Any

import pytest

from pyromq.testing.waiting import eventually

DEADLINE_S = 60.0


def records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def test_every_line_of_standard_input_with_something_on_it_is_a_message(shell: Any, address: str) -> None:
    shell.output_of("produce", "-n", address, "lines", stdin="one\ntwo\n\nfour")

    read = records(shell.output_of("consume", "-n", address, "lines", "--json"))
    assert sorted(record["body"] for record in read) == ["four", "one", "two"]


def test_keys_tag_and_properties_travel_with_the_message(shell: Any, address: str) -> None:
    options = ["--key", "k1", "--key", "k2", "--tag", "paid", "--property", "city=Oslo"]

    sent = records(shell.output_of("produce", "-n", address, "full", "body", *options, "--json"))
    read = records(shell.output_of("consume", "-n", address, "full", "--json"))

    assert read[0]["keys"] == ["k1", "k2"]
    assert read[0]["tags"] == "paid"
    assert read[0]["properties"]["city"] == "Oslo"
    assert read[0]["message_id"] == sent[0]["message_id"]
    assert read[0]["offset_message_id"] == sent[0]["offset_message_id"]
    assert (read[0]["queue"], read[0]["offset"]) == (sent[0]["queue"], sent[0]["offset"])


def test_many_messages_end_with_a_summary_and_are_read_in_the_order_of_storing(
    shell: Any, address: str
) -> None:
    summary = shell.output_of("produce", "-n", address, "many", "x", "--count", "200")

    read = records(shell.output_of("consume", "-n", address, "many", "--json"))

    assert summary.startswith("sent 200 of 200 messages in ")
    assert len(read) == 200
    assert len({record["queue"] for record in read}) > 1
    times = [record["stored_at_ms"] for record in read]
    assert times == sorted(times)


def test_only_messages_with_a_wanted_tag_are_printed(shell: Any, address: str) -> None:
    for tag in ("a", "b", "c"):
        shell.output_of("produce", "-n", address, "tagged", tag, "--tag", tag)

    read = shell.output_of("consume", "-n", address, "tagged", "--tags", "a||c", "--body-only")

    assert read.splitlines() == ["a", "c"]


def test_a_group_goes_on_where_it_stopped(shell: Any, address: str) -> None:
    shell.output_of("produce", "-n", address, "shared", "one", "two", "three")
    consume = ("consume", "-n", address, "shared", "--group", "g", "--body-only")

    first = shell.output_of(*consume, "--count", "2").split()
    second = shell.output_of(*consume).split()
    third = shell.output_of(*consume).split()

    assert sorted(first + second) == ["one", "three", "two"]
    assert third == []


def test_without_a_group_nothing_is_remembered(shell: Any, address: str) -> None:
    shell.output_of("produce", "-n", address, "again", "one")
    consume = ("consume", "-n", address, "again", "--body-only")

    assert [shell.output_of(*consume), shell.output_of(*consume)] == ["one\n", "one\n"]


def test_from_last_prints_nothing_of_what_is_there(shell: Any, address: str) -> None:
    shell.output_of("produce", "-n", address, "old", "one")

    assert shell.output_of("consume", "-n", address, "old", "--from", "last") == ""


def test_from_a_time_prints_what_was_stored_since(shell: Any, address: str) -> None:
    shell.output_of("produce", "-n", address, "timed", "early")
    (early,) = records(shell.output_of("consume", "-n", address, "timed", "--json"))
    shell.output_of("produce", "-n", address, "timed", "late")

    since = str(early["stored_at_ms"] + 1)
    read = shell.output_of(
        "consume", "-n", address, "timed", "--from", "time", "--time", since, "--body-only"
    )

    assert read == "late\n"


def test_following_prints_what_comes_and_a_signal_ends_it_in_order(shell: Any, address: str) -> None:
    follower = shell.start("consume", "-n", address, "news", "--follow", "--body-only")
    eventually(lambda: "waiting for topic news" in follower.err, DEADLINE_S)

    shell.output_of("produce", "-n", address, "news", "flash")

    eventually(lambda: follower.out == "flash\n", DEADLINE_S)
    assert follower.stop() == 0


def test_a_topic_that_nobody_has_is_told_in_one_line(shell: Any, address: str) -> None:
    ended = shell.run("consume", "-n", address, "nobody")

    assert ended.returncode == 3
    assert "nobody" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", [("produce", "t", "x"), ("consume", "t")])
def test_a_name_server_that_is_not_there_is_told_with_its_address(
    shell: Any, command: tuple[str, ...]
) -> None:
    # Port 1 is reserved and nothing listens there.
    ended = shell.run(*command, "-n", "127.0.0.1:1")

    assert ended.returncode == 4
    assert "127.0.0.1:1" in ended.stderr
    assert "Traceback" not in ended.stderr
