"""Dead letters from a shell: whoever kills a replay finds it resumed."""

import itertools
import json
import os
import pty
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dead_letter_stage import Undertaker, undertaker

from pyromq import Admin, PullConsumer
from pyromq.testing.waiting import eventually

PYROMQ = Path(sys.executable).with_name("pyromq")
DEADLINE_S = 60.0
LETTERS = 40
CUT_AFTER = 5
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def grave(shared_address: str) -> Iterator[Undertaker]:
    with Admin(shared_address) as admin:
        (broker,) = admin.cluster().broker_addr_table.values()
    with undertaker(shared_address, [broker.broker_addrs[0]]) as one:
        yield one


@pytest.fixture
def group(grave: Undertaker) -> str:
    """A group with dead letters that no other test uses."""
    group = f"shop-{next(_numbers)}"
    for number in range(LETTERS):
        grave.bury(group, "orders", b"%d" % number)
    return group


def records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def stored(name_server: str, topic: str) -> list[str]:
    """The dead letters that the messages of a topic were replayed from."""
    with PullConsumer("witnesses", name_server) as consumer:
        found = []
        for queue in consumer.queues(topic):
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                result = consumer.pull(queue, offset)
                found += [message.properties["REPLAYED_FROM"] for message in result.messages]
                offset = result.next_offset
    return found


def test_a_replay_that_is_killed_loses_nothing_and_doubles_nothing(
    shell: Any, shared_address: str, group: str
) -> None:
    replay = ("dlq", "replay", group, "--all", "--yes", "--json", "-n", shared_address)
    # Slow, so that it is killed before its end however slow the machine is.
    first = shell.start(*replay, "--rate", "5")
    eventually(lambda: first.out.count("\n") >= CUT_AFTER, DEADLINE_S)
    first.process.kill()
    first.wait()
    before = sum(record["outcome"] == "replayed" for record in records(first.out[: first.out.rfind("\n")]))

    *results, total = records(shell.output_of(*replay))

    copies = Counter(stored(shared_address, f"%RETRY%{group}"))
    assert CUT_AFTER <= before < LETTERS
    assert total["failed"] == 0
    assert total["replayed"] + total["skipped"] == LETTERS
    assert before <= total["skipped"] <= before + 1
    assert set(copies) == {record["dead_letter_id"] for record in results}
    assert set(copies.values()) == {1}


def on_a_terminal(shell: Any, words: tuple[str, ...], answer: bytes) -> tuple[int, str]:
    """Run a program on a terminal, answer its first question, and return its status and what it showed."""
    ours, its = pty.openpty()
    with open(ours, "r+b", buffering=0) as terminal:
        process = subprocess.Popen(
            [PYROMQ, *words], stdin=its, stdout=its, stderr=its, env=shell.environment | {"TERM": "xterm"}
        )
        os.close(its)
        shown = b""
        try:
            while piece := terminal.read(4096):
                if b"[y/N]" in shown + piece and b"[y/N]" not in shown:
                    terminal.write(answer)
                shown += piece
        except OSError:
            # Linux ends a terminal that nobody has open any more by an error.
            pass
        return process.wait(DEADLINE_S), shown.decode()


def test_on_a_terminal_many_are_asked_about_first_and_then_shown_by_a_bar(
    shell: Any, shared_address: str, group: str
) -> None:
    replay = ("dlq", "replay", group, "--all", "-n", shared_address)

    refused, question = on_a_terminal(shell, replay, b"n\n")
    nothing = shell.output_of(*replay, "--dry-run")
    # Slow enough for a bar, which is for what takes a while.
    done, shown = on_a_terminal(shell, (*replay, "--rate", str(LETTERS)), b"y\n")

    assert refused == 1
    assert f"Replay {LETTERS} dead letters of group {group} to %RETRY%{group}?" in question
    assert nothing.splitlines()[-1].startswith(f"{LETTERS} would replay in ")
    assert done == 0
    assert f"{LETTERS}/{LETTERS}" in shown
    assert f"{LETTERS} replayed in " in shown


def test_many_are_refused_without_a_yes_where_nobody_can_answer(
    shell: Any, shared_address: str, group: str
) -> None:
    ended = shell.run("dlq", "replay", group, "--all", "-n", shared_address)

    assert ended.returncode == 2
    assert f"Replay {LETTERS} dead letters" in ended.stderr
    assert "--yes" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_broker_that_is_gone_is_told_in_one_line(shell: Any) -> None:
    ended = shell.run("dlq", "list", "shop", "-n", "127.0.0.1:1")

    assert ended.returncode == 4
    assert len(ended.stderr.splitlines()) == 1
