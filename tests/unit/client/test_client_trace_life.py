from typing import Any

import pytest
from push_messages import received

from pyromq.client.dead_letter import REPLAYED_FROM
from pyromq.client.tracing.trace_format import MessageKind, TraceEntry, TraceType
from pyromq.client.tracing.trace_life import TraceEvent, steps_of


def entry(type_: TraceType, at_ms: int, **more: object) -> TraceEntry:
    return TraceEntry(type=type_, message_id="ID0", at_ms=at_ms, **more)  # type: ignore[arg-type]


def test_a_life_is_told_in_the_order_of_time() -> None:
    steps = steps_of(
        [
            entry(TraceType.SUB_BEFORE, 30, group="readers", request_id="R1"),
            entry(
                TraceType.SUB_AFTER, 35, group="readers", request_id="R1", is_success=False, how_it_ended=2
            ),
            entry(TraceType.SUB_BEFORE, 60, group="readers", request_id="R2", retries=1),
            entry(TraceType.SUB_AFTER, 66, group="readers", request_id="R2", took_ms=6, how_it_ended=0),
            entry(TraceType.PUB, 10, group="senders", topic="orders", broker_address="b:1"),
        ],
        [
            received(stored_at_ms=11),
            received(topic="%RETRY%readers", stored_at_ms=40, reconsume_times=1),
        ],
    )

    assert [(step.event, step.at_ms, step.is_success) for step in steps] == [
        (TraceEvent.SENT, 10, True),
        (TraceEvent.STORED, 11, True),
        (TraceEvent.CONSUMED, 30, False),
        (TraceEvent.RETRY_STORED, 40, True),
        (TraceEvent.CONSUMED, 60, True),
    ]
    assert [step.number for step in steps if step.event == TraceEvent.CONSUMED] == [1, 2]
    assert steps[2].detail == "the listener raised"
    assert steps[4].took_ms == 6


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        ({"topic": "%RETRY%readers", "reconsume_times": 1}, [TraceEvent.RETRY_STORED, TraceEvent.CONSUMED]),
        (
            {"topic": "%RETRY%readers", "properties": {REPLAYED_FROM: "A"}},
            [TraceEvent.REPLAYED, TraceEvent.CONSUMED],
        ),
        ({"topic": "%DLQ%readers", "reconsume_times": 1}, [TraceEvent.CONSUMED, TraceEvent.DEAD]),
    ],
    ids=["retry", "replay", "dead letter"],
)
def test_what_happened_within_a_millisecond_is_told_in_the_order_in_which_it_can_have(
    copy: dict[str, Any], expected: list[TraceEvent]
) -> None:
    steps = steps_of([entry(TraceType.SUB_BEFORE, 7, group="readers")], [received(stored_at_ms=7, **copy)])

    assert [step.event for step in steps] == expected


def test_a_dead_letter_and_its_replay_are_told() -> None:
    steps = steps_of(
        [],
        [
            received(topic="%DLQ%readers", stored_at_ms=1, reconsume_times=17),
            received(topic="%RETRY%readers", stored_at_ms=2, properties={REPLAYED_FROM: "A"}),
        ],
    )

    assert [(step.event, step.group) for step in steps] == [
        (TraceEvent.DEAD, "readers"),
        (TraceEvent.REPLAYED, "readers"),
    ]
    assert "after 17 tries" in steps[0].detail


def test_a_listener_that_never_came_back_is_told() -> None:
    (step,) = steps_of([entry(TraceType.SUB_BEFORE, 1, group="readers", request_id="R1")], [])

    assert (step.is_success, step.detail) == (False, "no end is known")


def test_the_end_of_an_old_consumer_without_its_beginning_is_told() -> None:
    (step,) = steps_of([entry(TraceType.SUB_AFTER, 1, group="readers", request_id="R1")], [])

    assert (step.event, step.number) == (TraceEvent.CONSUMED, None)


def test_a_transaction_tells_its_half_and_its_end() -> None:
    half, end = steps_of(
        [
            entry(TraceType.PUB, 1, topic="orders", kind=MessageKind.HALF),
            entry(
                TraceType.END_TRANSACTION,
                2,
                topic="orders",
                transaction_state="COMMIT_MESSAGE",
                was_asked=True,
            ),
        ],
        [],
    )

    assert "half of a transaction" in half.detail
    assert end.detail == "COMMIT_MESSAGE, the broker had asked"
