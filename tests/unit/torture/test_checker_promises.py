"""Every promise of the torture: a run that breaks it is found, and one that keeps it is not."""

from collections.abc import Callable

import pytest
from told_history import SYNC, Told

from pyromq.torture.checker import CHECKS
from pyromq.torture.stage import Promises, Topology
from pyromq.torture.workload.arrangement import (
    DELAYED,
    FAILERS,
    FAILING,
    ORDERED,
    ORDERLY,
    PAID,
    PLAIN,
    POPPED,
    PULLERS,
    READERS,
    STAGED,
    TAGGED,
    TIMED,
)
from pyromq.torture.workload.workload_plan import WorkloadKind

QUEUE = f"{PLAIN}/broker-a/0"
DLQ = f"%DLQ%{FAILERS}/broker-a/0"
RETRY = f"%RETRY%{FAILERS}/broker-a/0"
#: A story, told with a promise kept or broken.
Story = Callable[[Told, bool], None]
STORIES: dict[str, tuple[Story, Promises]] = {}


def story(promise: str, promises: Promises | None = None) -> Callable[[Story], Story]:
    """Note the story of a promise."""

    def note(tell: Story) -> Story:
        assert promise not in STORIES
        STORIES[promise] = tell, promises or Promises()
        return tell

    return note


@story("acknowledged messages are there")
def _lost(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.ack(1)
    run.empty(QUEUE)
    if not is_broken:
        run.store(1)
    run.settle()


@story("messages are stored once, and once more for each lost answer")
def _stored_twice(run: Told, is_broken: bool) -> None:
    run.send(1)
    if not is_broken:
        run.note("try", number=1, address="other:1")
    run.ack(1, 1)
    run.store(1, 0)
    run.store(1, 1)
    run.settle()


@story("bodies are what was sent")
def _changed(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.ack(1)
    run.store(1, kind=WorkloadKind.BATCH if is_broken else WorkloadKind.PLAIN)
    run.settle()


@story("messages stand where it was said, and queues have no gaps")
def _moved(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.ack(1, 0)
    run.send(2)
    run.ack(2, 1)
    run.store(1, 1 if is_broken else 0)
    run.store(2, 0 if is_broken else 1)
    run.settle()


@story("what readers saw is not taken back", SYNC)
def _taken_back(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.send(2)
    run.deliver(1, 0)
    run.store(2 if is_broken else 1, 0)
    run.settle()


@story("queues keep the order of sends")
def _out_of_order(run: Told, is_broken: bool) -> None:
    run.send(1)
    if not is_broken:
        run.send(2)
    run.ack(1, 1)
    if is_broken:
        run.send(2)
    run.ack(2, 0)


@story("queues are read in order")
def _read_out_of_order(run: Told, is_broken: bool) -> None:
    place = f"{ORDERED}/broker-a/0"
    run.deliver(1, 0, place=place, group=ORDERLY, done=False)
    for number in (1, 3, 2) if is_broken else (1, 2, 1, 3):
        run.deliver(number, number - 1, place=place, group=ORDERLY)


@story("keys are seen in order")
def _key_out_of_order(run: Told, is_broken: bool) -> None:
    place = f"{ORDERED}/broker-a/0"
    for number in (1, 2):
        run.send(number, WorkloadKind.ORDERED, ORDERED, key="red")
        run.ack(number, number, place=place)
    for number in (2, 1) if is_broken else (1, 2):
        run.deliver(number, number, place=place, group=ORDERLY, kind=WorkloadKind.ORDERED)


@story("every group gets its messages")
def _not_delivered(run: Told, is_broken: bool) -> None:
    run.subscribe(READERS, PLAIN)
    run.send(1)
    run.ack(1)
    if not is_broken:
        run.deliver(1)
    run.settle()


@story("messages come in time")
def _late(run: Told, is_broken: bool) -> None:
    run.subscribe(READERS, PLAIN)
    run.send(1, at=1.0)
    run.ack(1, at=1.1)
    run.deliver(1, at=121.0 if is_broken else 5.0)


@story("filters let nothing else through")
def _not_chosen(run: Told, is_broken: bool) -> None:
    run.subscribe(TAGGED, PLAIN, tags=["a", "b"])
    run.send(1, tag="c" if is_broken else "b")
    run.deliver(1, group=TAGGED)


@story("messages come once while nothing is wrong")
def _again(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.deliver(1, done=is_broken)
    run.deliver(1)


@story("what was popped and acknowledged does not come again")
def _ended_again(run: Told, is_broken: bool) -> None:
    run.send(1, WorkloadKind.POPPED, POPPED)
    run.pop(1, at=1.0, until_s=5.0)
    run.end(1, popped_at_s=1.0, until_s=5.0, at=1.1)
    if is_broken:
        run.pop(1, at=9.0, times=1)


@story("what was popped is one member's at a time")
def _shared(run: Told, is_broken: bool) -> None:
    run.send(1, WorkloadKind.POPPED, POPPED)
    run.pop(1, at=1.0, until_s=5.0)
    run.pop(1, at=2.0 if is_broken else 5.1, times=1)


@story("delayed messages do not come early")
def _early(run: Told, is_broken: bool) -> None:
    run.send(1, WorkloadKind.DELAYED, DELAYED, at=1.0, delay_s=2, is_delayed=True)
    run.deliver(1, at=2.9 if is_broken else 3.0, kind=WorkloadKind.DELAYED)


@story("recalled messages do not come")
def _recalled(run: Told, is_broken: bool) -> None:
    place = f"{TIMED}/broker-a/0"
    run.send(1, WorkloadKind.TIMED, TIMED, delay_s=2, is_delayed=True)
    run.ack(1, place=place)
    run.note("recall", number=1)
    run.note("recalled", number=1)
    run.empty(place)
    if is_broken:
        run.store(1, place=place, kind=WorkloadKind.TIMED)
    run.settle()


@story("transactions end as decided")
def _disobeyed(run: Told, is_broken: bool) -> None:
    place = f"{PAID}/broker-a/0"
    for number, state in ((1, "COMMIT_MESSAGE"), (2, "ROLLBACK_MESSAGE"), (3, None)):
        run.send(number, WorkloadKind.TRANSACTION, PAID)
        if state is not None:
            run.note("decide", number=number, state=state)
        run.ack(number, place=place)
    run.store(2 if is_broken else 1, place=place, kind=WorkloadKind.TRANSACTION)
    run.settle()


@story("staged batches are whole, and once")
def _torn(run: Told, is_broken: bool) -> None:
    place = f"{STAGED}/broker-a/0"
    for number in (1, 2):
        run.send(number, WorkloadKind.STAGED, STAGED)
    run.note("batch", name="q-0", numbers=[1, 2])
    run.note("publish", name="q-0")
    run.note("published", name="q-0")
    for number in (1,) if is_broken else (1, 2):
        run.store(number, number, place=place, kind=WorkloadKind.STAGED)
    run.settle()


@story("what a group gives up is a dead letter, once")
def _dead_twice(run: Told, is_broken: bool) -> None:
    run.send(1, WorkloadKind.FAILING, FAILING, failures=99)
    run.ack(1, place=f"{FAILING}/broker-a/0")
    for times in range(3):
        run.deliver(1, times, group=FAILERS, times=times, done=False, kind=WorkloadKind.FAILING)
    run.store(1, 0, place=DLQ, kind=WorkloadKind.FAILING)
    if is_broken:
        run.store(1, 1, place=DLQ, kind=WorkloadKind.FAILING)
    run.settle()


@story("what fails is tried again once")
def _retried_twice(run: Told, is_broken: bool) -> None:
    run.send(1, WorkloadKind.FAILING, FAILING, failures=1)
    run.deliver(1, group=FAILERS, done=False, kind=WorkloadKind.FAILING)
    run.deliver(1, place=RETRY, group=FAILERS, times=1, kind=WorkloadKind.FAILING)
    run.store(1, 0, place=RETRY, kind=WorkloadKind.FAILING)
    if is_broken:
        run.store(1, 1, place=RETRY, kind=WorkloadKind.FAILING)
    run.settle()


@story("replayed dead letters come again")
def _not_replayed(run: Told, is_broken: bool) -> None:
    run.send(1, WorkloadKind.FAILING, FAILING, failures=99)
    run.deliver(1, group=FAILERS, times=2, done=False, kind=WorkloadKind.FAILING)
    run.note("replayed", number=1)
    if not is_broken:
        run.deliver(1, place=RETRY, group=FAILERS, kind=WorkloadKind.FAILING)


@story("progress is not ahead of its queue")
def _ahead(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.store(1)
    run.settle()
    run.note("progress", group=READERS, place=QUEUE, offset=2 if is_broken else 1, end=1)


@story("committed progress does not go back")
def _gone_back(run: Told, is_broken: bool) -> None:
    for offset in (3, 5):
        run.note("commit", group=PULLERS, place=QUEUE, offset=offset)
        run.note("committed", group=PULLERS, place=QUEUE, offset=offset)
    run.note("recorded", group=PULLERS, place=QUEUE, offset=3 if is_broken else 5)


@story("ends that brokers tell are confirmed", SYNC)
def _unconfirmed(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.note("end", code="GET_TOPIC_STATS_INFO", place=QUEUE, end=2 if is_broken else 1)
    run.store(1)
    run.settle()


@story("a replaced master acknowledges nothing", SYNC)
def _two_masters(run: Told, is_broken: bool) -> None:
    first, second = "10.0.0.1:10911", "10.0.0.2:10911"
    run.note("leader", address=first, at=1.0)
    run.note("leader", address=second, at=9.0)
    run.send(1, at=10.0 if is_broken else 8.9)
    run.ack(1, host=first, at=10.1 if is_broken else 9.1)


@story("calls are answered while nothing is wrong")
def _unanswered(run: Told, is_broken: bool) -> None:
    run.send(1)
    run.ack(2)
    if not is_broken:
        run.note("fault", what="kill", whom="broker-a")
    run.note("fail", number=1, error="RequestTimeout")


@story("brokers serve when the faults are over")
def _unreadable(run: Told, is_broken: bool) -> None:
    run.note("settle")
    run.note("unreadable" if is_broken else "read_out", error="ConnectFailed")


@story("requests get their own reply")
def _anothers_reply(run: Told, is_broken: bool) -> None:
    run.note("reply", number=1, got=2 if is_broken else 1)


@story("accounts see only what they may")
def _let_in(run: Told, is_broken: bool) -> None:
    run.note("let_in" if is_broken else "kept_out", door="pull")


@story("topics are there until they are deleted")
def _topic_gone(run: Told, is_broken: bool) -> None:
    for topic in ("t-1", "t-2"):
        run.note("topic_created", topic=topic)
    run.note("topic_delete", topic="t-2")
    run.note("topic_deleted", topic="t-2")
    run.note("topics", names=["t-1", "t-2"] if is_broken else ["t-1"])


def test_every_promise_has_a_story() -> None:
    assert list(STORIES) == list(CHECKS)


@pytest.mark.parametrize("promise", STORIES)
def test_a_broken_promise_is_found(promise: str) -> None:
    tell, promises = STORIES[promise]
    run = Told(promises)
    tell(run, True)
    verdict = run.verdict(promise)
    assert len(verdict.broken) >= 1
    assert verdict.checked >= len(verdict.broken)


@pytest.mark.parametrize("promise", STORIES)
def test_a_promise_that_is_kept_is_looked_at_and_not_broken(promise: str) -> None:
    tell, promises = STORIES[promise]
    run = Told(promises)
    tell(run, False)
    verdict = run.verdict(promise)
    assert verdict.broken == []
    assert verdict.checked >= 1


def test_every_promise_is_listed_when_nothing_happened() -> None:
    run = Told(Promises(Topology.ALONE))
    assert run.broken() == {}
    assert {run.verdict(promise).checked for promise in CHECKS} == {0}
