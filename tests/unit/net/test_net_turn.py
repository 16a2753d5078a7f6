"""What happens when a turn of the loop ends, and in which order."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from list_transport import ListTransport

from pyromq.broker.end_of_turn import BrokerTurn
from pyromq.config.settings import NetSettings
from pyromq.net.link import Link
from pyromq.net.turn import Turn
from pyromq.testing.manual_clock import ManualClock


class NotingTransport(ListTransport):
    """Notes when a link writes, and when it gives up."""

    def __init__(self, done: list[str]) -> None:
        super().__init__()
        self._done = done

    def write(self, data: bytes) -> None:
        self._done.append("write")

    def abort(self) -> None:
        self._done.append("abort")

    def close(self) -> None:
        self._done.append("close")


def answer_something(turn: Turn, done: list[str]) -> Link:
    """Have a link take part in the turn with an answer."""
    link = Link(
        NetSettings(),
        turn=turn,
        clock=ManualClock(),
        on_request=lambda _link, _command: None,
        on_end=lambda _link: None,
    )
    link.connection_made(NotingTransport(done))  # type: ignore[arg-type]
    link.send_frames(b"answer")
    return link


def noting(done: list[str], name: str) -> Callable[[], None]:
    return lambda: done.append(name)


async def turn_over() -> None:
    await asyncio.sleep(0)


async def test_steps_run_in_their_order_whatever_was_due_first_and_then_links_write() -> None:
    turn, done = Turn(), list[str]()
    steps = {name: turn.step() for name in ("first", "second", "third")}
    for name, step in steps.items():
        step.run = noting(done, name)

    answer_something(turn, done)
    steps["third"].due()
    steps["first"].due()
    steps["first"].due()
    assert done == []
    await turn_over()

    assert done == ["first", "third", "write"]


async def test_answers_may_leave_before_the_turn_ends_and_then_do_not_leave_again() -> None:
    turn, done = Turn(), list[str]()
    step = turn.step()
    step.run = noting(done, "step")
    link = answer_something(turn, done)
    step.due()
    step.write_now()
    assert done == ["write"]

    link.send_frames(b"another")
    await turn_over()

    assert done == ["write", "step", "write"]


async def test_nothing_leaves_a_broker_s_turn_early_before_the_journal_has_what_was_popped() -> None:
    turn, done = BrokerTurn(lambda: 0.0), list[str]()
    turn.journal.run = noting(done, "journal")
    answer_something(turn, done)
    turn.journal.due()
    turn.sync.write_now()
    assert done == []
    await turn_over()

    assert done == ["journal", "write"]


async def test_a_broker_syncs_and_replicates_before_it_wakes_pulls_and_answers() -> None:
    turn, done = BrokerTurn(lambda: 0.0), list[str]()
    names = ("relent", "wake", "replicate", "sync", "copy")
    answer_something(turn, done)
    for name in names:
        step = getattr(turn, name)
        step.run = noting(done, name)
        step.due()
    await turn_over()

    assert done == ["copy", "sync", "replicate", "wake", "relent", "write"]


async def test_a_step_that_finds_more_to_do_runs_in_the_next_turn_again() -> None:
    turn, done = Turn(), list[str]()
    step = turn.step()

    def run() -> None:
        done.append("run")
        if len(done) < 3:
            step.due()

    step.run = run
    step.due()
    for count in (1, 2, 3, 3):
        await turn_over()
        assert len(done) == count


async def test_a_step_that_fails_keeps_no_answer_back(caplog: pytest.LogCaptureFixture) -> None:
    turn, done = Turn(), list[str]()
    broken, after = turn.step(), turn.step()

    def fail() -> None:
        raise ValueError("a mistake")

    broken.run, after.run = fail, noting(done, "after")
    answer_something(turn, done)
    broken.due()
    after.due()
    with caplog.at_level(logging.ERROR):
        await turn_over()

    assert done == ["after", "write"]
    assert "a step at the end of a turn failed" in caplog.text


async def test_what_the_steps_say_is_looked_at_before_answers_leave() -> None:
    done: list[str] = []
    turn = Turn(lambda: "the lease ended" not in done)
    step = turn.step()
    step.run = noting(done, "the lease ended")
    answer_something(turn, done)
    step.due()
    await turn_over()

    assert done == ["the lease ended", "abort"]


def test_links_that_are_opened_in_another_loop_have_their_turns_there() -> None:
    turn, done = Turn(), list[str]()

    async def answer() -> None:
        answer_something(turn, done)
        await turn_over()

    for count in (1, 2):
        asyncio.run(answer())
        assert done == ["write"] * count


async def test_what_fails_for_noted_links_closes_them_and_the_next_turn_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn, done = Turn(), list[str]()
    link = answer_something(turn, done)
    link.data_received(b"\0")
    await turn_over()

    def fail(_links: list[Link]) -> bool:
        raise ValueError("a mistake")

    turn.shortcut = fail
    link.data_received(b"\0")
    with caplog.at_level(logging.ERROR):
        await turn_over()
    answer_something(turn, done)
    await turn_over()

    assert link.closed
    assert "frames of 1 connections could not be handled; they are closed" in caplog.text
    assert done == ["write", "close", "write"]
