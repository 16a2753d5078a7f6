"""Which messages of a replay go out in which round."""

import json
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyspark_rocketmq.jobs.replay_plan import Block, ReplayRound, ReplayState, make_rounds
from pyspark_rocketmq.source.planning import QueueRange

FIRST, SECOND = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def block(queue: MessageQueue, start: int, end: int, rows: int) -> Block:
    return Block(QueueRange(queue, start, end), rows)


def test_blocks_of_a_queue_in_one_round_are_one_range_and_no_round_is_larger_than_it_may_be() -> None:
    blocks = [
        block(SECOND, 0, 10, 4),
        block(FIRST, 20, 30, 5),
        block(FIRST, 0, 9, 5),
        block(FIRST, 50, 60, 2),
    ]

    rounds = list(make_rounds(blocks, 10))

    assert [one.row_count for one in rounds] == [10, 6]
    assert [[(part.queue, part.start, part.end) for part in one.ranges] for one in rounds] == [
        [(FIRST, 0, 30)],
        [(FIRST, 50, 60), (SECOND, 0, 10)],
    ]


def test_a_block_that_is_larger_than_a_round_is_one_by_itself() -> None:
    rounds = list(make_rounds([block(FIRST, 0, 10, 9), block(FIRST, 10, 20, 9)], 3))

    assert [one.row_count for one in rounds] == [9, 9]


def test_a_round_says_its_ranges_as_options_of_a_read() -> None:
    one = ReplayRound((QueueRange(FIRST, 3, 9), QueueRange(SECOND, 0, 4)), 7)

    assert json.loads(one.queues) == {"orders": {"broker-a": [0, 1]}}
    assert json.loads(one.start_offsets) == {"orders": {"broker-a": {"0": 3, "1": 0}}}
    assert json.loads(one.end_offsets) == {"orders": {"broker-a": {"0": 9, "1": 4}}}


def test_a_plan_is_kept_with_how_far_it_is(tmp_path: Path) -> None:
    state = ReplayState(tmp_path / "state")
    assert (state.load(), state.done_count) == (None, 0)

    plan = state.begin("orders to audit", make_rounds([block(FIRST, 0, 10, 9), block(SECOND, 0, 4, 4)], 9))
    state.note_done(0)
    state.note_done(0)

    again = ReplayState(tmp_path / "state")
    assert (again.load(), again.done_count) == (plan, 1)
    assert plan.row_count == 13


def test_two_programs_cannot_begin_the_same_replay(tmp_path: Path) -> None:
    ReplayState(tmp_path).begin("orders to audit", [])

    with pytest.raises(ConfigError, match="running twice"):
        ReplayState(tmp_path).begin("orders to audit", [])


def test_a_plan_that_is_forgotten_is_made_anew(tmp_path: Path) -> None:
    state = ReplayState(tmp_path)
    first = state.begin("orders to audit", make_rounds([block(FIRST, 0, 10, 9)], 9))
    state.note_done(0)

    state.forget()

    assert (state.load(), state.done_count) == (None, 0)
    assert state.begin("orders to audit", first.rounds).id != first.id


def test_a_plan_that_does_not_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")

    with pytest.raises(ConfigError, match=r"plan\.json does not read"):
        ReplayState(tmp_path).load()
