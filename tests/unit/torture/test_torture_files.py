"""What the torture makes of `pyromq store verify`: faults count, but of topics that a switch brought back."""

import json

import pytest
from told_history import SYNC, Told

from pyromq.torture.file_audit import faults_of, returned_topics

NO_QUEUE = "1 messages of queue 0 of 't-passing-25' are in the log, but the queue has no files"


def deletion(*, fails: bool, change_at: float) -> Told:
    """Tell of a topic whose deletion took a tenth of a second, and of a master that was elected."""
    run = Told(SYNC)
    run.note("topic_delete", at=39.4, topic="t-passing-25")
    run.note("order_failed" if fails else "topic_deleted", at=39.5, topic="t-passing-25")
    run.note("master", at=change_at, group="broker-b", epoch=3)
    return run


@pytest.mark.parametrize("fails", [True, False])
def test_a_change_of_masters_may_take_back_a_deletion_that_was_just_made(fails: bool) -> None:
    assert returned_topics(deletion(fails=fails, change_at=40.2).history) == {"t-passing-25"}


@pytest.mark.parametrize("change_at", [39.3, 50.0])
def test_a_change_before_or_long_after_a_deletion_takes_nothing_back(change_at: float) -> None:
    assert returned_topics(deletion(fails=True, change_at=change_at).history) == set()


def found(*whats: str) -> str:
    lines = [{"event": "fault", "file": "consumequeue", "position": 0, "what": what} for what in whats]
    notes = [{"event": "note", "file": "commitlog", "position": 7, "what": NO_QUEUE}]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines + notes)


def test_only_the_missing_queue_of_a_topic_that_came_back_is_no_fault() -> None:
    other = "1 messages of queue 0 of 't-plain' are in the log, but the queue has no files"
    torn = "2 messages of queue 0 of 't-passing-25' have no entry; the first is at 7"
    said = found(NO_QUEUE, other, torn)

    assert [fault.split(": ", 1)[1] for fault in faults_of(said, {"t-passing-25"})] == [other, torn]
    assert len(faults_of(said, set())) == 3
