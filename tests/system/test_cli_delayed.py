import json
from typing import Any

import pytest

from pyromq.testing.waiting import eventually

pytestmark = pytest.mark.row("DE-10")


def records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def produce(shell: Any, address: str, topic: str, text: str, *options: str) -> dict[str, Any]:
    (sent,) = records(shell.output_of("produce", "-n", address, topic, text, *options, "--json"))
    return sent


def test_what_waits_is_listed_shown_and_recalled(shell: Any, address: str) -> None:
    topic = "cli-delayed"
    soon = produce(shell, address, topic, "soon", "--delay", "1h", "--key", "order-1", "--tag", "paid")
    later = produce(shell, address, topic, "later", "--delay", "30d")
    produce(shell, address, topic, "much later", "--at", "+300d")

    table = shell.output_of("delayed", "list", "-n", address, topic)
    listed = records(shell.output_of("delayed", "list", "-n", address, topic, "--all", "--json"))
    some = records(
        shell.output_of("delayed", "list", "-n", address, topic, "--from", "+29d", "--to", "+31d", "--json")
    )
    shown = shell.output_of("delayed", "show", "-n", address, soon["message_id"])
    by_handle = records(shell.output_of("delayed", "show", "-n", address, later["recall_handle"], "--json"))

    head, first, *_, footer = table.splitlines()
    assert head.split() == ["DUE", "IN", "TOPIC", "TAG", "KEYS", "ID", "BODY"]
    assert first.split()[2] == "59m"
    assert first.split()[4:] == [topic, "paid", "order-1", soon["message_id"], "soon"]
    assert footer.startswith("3 listed, ")
    assert [one["body"] for one in listed] == ["soon", "later", "much later"]
    assert listed[0]["recall_handle"] == soon["recall_handle"]
    assert [one["body"] for one in some] == ["later"]
    assert soon["recall_handle"] in shown
    assert [one["body"] for one in by_handle] == ["later"]

    done = shell.run("delayed", "recall", "-n", address, soon["message_id"], later["recall_handle"])
    again = shell.run("delayed", "recall", "-n", address, "--json", soon["message_id"])
    gone = shell.run("delayed", "show", "-n", address, soon["message_id"])

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("recalled") == 2
    assert again.returncode == 1
    assert records(again.stdout)[0]["recalled"] is False
    assert gone.returncode == 1
    assert "delivered or recalled" in gone.stderr
    left = records(shell.output_of("delayed", "list", "-n", address, topic, "--json"))
    assert [one["body"] for one in left] == ["much later"]


def test_handles_are_read_from_standard_input(shell: Any, address: str) -> None:
    topic = "cli-delayed-many"
    shell.output_of("produce", "-n", address, topic, "x", "--count", "3", "--delay", "2h", "--json")
    handles = "\n".join(
        one["recall_handle"]
        for one in records(shell.output_of("delayed", "list", "-n", address, topic, "--json"))
    )

    told = records(shell.output_of("delayed", "recall", "-n", address, "-", "--json", stdin=handles))

    assert [one["recalled"] for one in told] == [True] * 3
    assert shell.output_of("delayed", "list", "-n", address, topic, "--json") == ""


def test_a_message_with_a_short_delay_arrives(shell: Any, address: str) -> None:
    produce(shell, address, "cli-delayed-short", "quick", "--delay", "300ms")

    eventually(
        lambda: shell.output_of("consume", "-n", address, "cli-delayed-short", "--body-only") == "quick\n", 60
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("produce", "t", "x", "--delay", "soon"), "--delay soon"),
        (("produce", "t", "x", "--at", "noon"), "--at noon"),
        (("delayed", "list", "--from", "noon"), "--from noon"),
    ],
)
def test_a_time_that_is_none_is_a_misuse(shell: Any, words: tuple[str, ...], says: str) -> None:
    ended = shell.run(*words)

    assert ended.returncode == 2
    assert says in ended.stderr
