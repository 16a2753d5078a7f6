"""The promises to members that pop, and what the checker lets pass: late acknowledgements, faults."""

import pytest
from told_history import SYNC, Told

from pyromq.torture.stage import Promises
from pyromq.torture.workload.arrangement import POPPED, POPPERS
from pyromq.torture.workload.workload_plan import WorkloadKind

ENDED = "what was popped and acknowledged does not come again"
SHARED = "what was popped is one member's at a time"
DELIVERED = "every group gets its messages"


def popped_run(promises: Promises | None = None) -> Told:
    """Tell of a message that is sent, and popped at 1 s until 5 s."""
    run = Told(promises)
    run.note("subscribe", group=POPPERS, topic=POPPED, tags=None, above=None)
    run.send(1, WorkloadKind.POPPED, POPPED, at=0.5)
    run.ack(1, place=f"{POPPED}/broker-a/0", at=0.6)
    run.pop(1, at=1.0, until_s=5.0)
    return run


@pytest.mark.parametrize("times", [0, 5])
def test_a_message_that_was_never_acknowledged_must_come_again(times: int) -> None:
    run = popped_run()
    run.pop(1, at=6.0, until_s=10.0, times=times)
    run.settle(at=30.0)
    (text,) = run.verdict(DELIVERED).broken
    assert "never delivered" in text


def test_an_acknowledged_message_is_delivered() -> None:
    run = popped_run()
    run.end(1, popped_at_s=1.0, until_s=5.0, at=1.1)
    run.settle(at=30.0)
    assert run.verdict(DELIVERED).broken == []


def test_an_acknowledgement_whose_answer_was_lost_may_have_had_its_effect() -> None:
    run = popped_run()
    run.note("ending", at=1.1, group=POPPERS, number=1)
    run.settle(at=30.0)
    assert run.verdict(DELIVERED).broken == []


def test_an_acknowledgement_that_came_too_late_promises_nothing() -> None:
    run = popped_run()
    run.end(1, popped_at_s=1.0, until_s=5.0, at=4.9)
    run.pop(1, at=6.0, times=1)
    assert run.verdict(ENDED).checked == 0


def test_a_fault_between_a_pop_and_its_acknowledgement_makes_that_worth_nothing() -> None:
    run = popped_run(SYNC)
    run.note("fault", at=1.2, what="kill", whom="broker-a")
    run.end(1, popped_at_s=1.0, until_s=5.0, at=2.0)
    run.pop(1, at=6.0, times=0)
    assert run.verdict(ENDED).checked == 0


def test_a_fault_after_an_acknowledgement_changes_nothing() -> None:
    run = popped_run(SYNC)
    run.end(1, popped_at_s=1.0, until_s=5.0, at=1.1)
    run.note("fault", at=2.0, what="kill", whom="broker-a")
    run.pop(1, at=20.0, times=0)
    assert len(run.verdict(ENDED).broken) == 1


def test_an_acknowledgement_may_be_lost_where_messages_may() -> None:
    run = popped_run(Promises(has_power_cuts=True))
    run.end(1, popped_at_s=1.0, until_s=5.0, at=1.1)
    run.note("fault", at=2.0, what="power", whom="broker-a")
    run.pop(1, at=20.0, times=0)
    assert run.verdict(ENDED).broken == []


def test_a_message_that_was_given_back_may_come_to_others_at_once() -> None:
    run = popped_run()
    run.note("given_back", at=1.5, group=POPPERS, number=1)
    run.pop(1, at=2.6, until_s=7.0, times=1)
    assert run.verdict(SHARED).broken == []


def test_two_copies_of_one_message_are_two_messages() -> None:
    run = popped_run()
    run.note("try", number=1, address="other:1")
    run.end(1, popped_at_s=1.0, until_s=5.0, at=1.1)
    run.pop(1, at=3.0)
    assert (run.verdict(ENDED).checked, run.verdict(SHARED).checked) == (0, 0)
