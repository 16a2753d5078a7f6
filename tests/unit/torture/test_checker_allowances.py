"""What the checker lets pass, and where that ends: losses, lost answers, late commits, changes of masters."""

import pytest
from told_history import SYNC, Told

from pyromq.torture.promise_model import Model
from pyromq.torture.stage import Promises, Topology
from pyromq.torture.workload.arrangement import FAILERS, FAILING, PAID, PLAIN, PULLERS, READERS, STAGED, TIMED
from pyromq.torture.workload.workload_plan import WorkloadKind

QUEUE = f"{PLAIN}/broker-a/0"
THERE = "acknowledged messages are there"
WHOLE = "staged batches are whole, and once"
BACK = "committed progress does not go back"
MASTER = "a replaced master acknowledges nothing"
FIRST, SECOND = "10.0.0.1:10911", "10.0.0.2:10911"


def lost_message(promises: Promises, fault: str | None, at: float = 1.0) -> Told:
    """Tell of a message that was acknowledged and is gone, and of a fault ten seconds after the begin."""
    run = Told(promises)
    run.send(1, at=at)
    run.ack(1)
    if fault is not None:
        run.note("fault", at=10.0, what=fault, whom="broker-a")
    run.empty(QUEUE)
    run.settle(at=20.0)
    return run


@pytest.mark.parametrize("status", ["FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"])
def test_an_answer_that_is_not_ok_promises_nothing(status: str) -> None:
    run = Told()
    run.send(1)
    run.ack(1, status=status)
    run.empty(QUEUE)
    run.settle()
    assert run.verdict(THERE).checked == 0


def test_asynchronous_flush_may_lose_what_came_just_before_a_power_cut() -> None:
    promises = Promises(has_power_cuts=True)
    assert lost_message(promises, "power", at=9.0).verdict(THERE).broken == []


def test_asynchronous_flush_may_not_lose_what_came_long_before() -> None:
    run = Told(Promises(has_power_cuts=True))
    run.send(1, at=1.0)
    run.ack(1)
    run.note("fault", at=60.0, what="rack-power", whom="all")
    run.empty(QUEUE)
    run.settle(at=70.0)
    assert len(run.verdict(THERE).broken) == 1


@pytest.mark.parametrize("fault", ["kill", "pause", None])
def test_asynchronous_flush_loses_nothing_without_a_power_cut(fault: str | None) -> None:
    promises = Promises(has_power_cuts=True)
    assert len(lost_message(promises, fault, at=9.0).verdict(THERE).broken) == 1


def test_synchronous_flush_loses_nothing() -> None:
    promises = Promises(is_sync_flush=True, has_power_cuts=True)
    assert len(lost_message(promises, "power", at=9.0).verdict(THERE).broken) == 1


def test_an_asynchronous_master_may_lose_something_when_it_is_replaced() -> None:
    promises = Promises(Topology.FAILOVER, replicas=2, is_sync_flush=True)
    assert lost_message(promises, "kill").verdict(THERE).broken == []
    assert len(lost_message(promises, None).verdict(THERE).broken) == 1


def test_a_slave_that_does_not_take_over_is_no_reason_to_lose_anything() -> None:
    promises = Promises(Topology.MASTER_SLAVE, replicas=2)
    assert len(lost_message(promises, "kill").verdict(THERE).broken) == 1


def test_the_evidence_names_the_message_its_queue_and_its_times() -> None:
    (text,) = lost_message(SYNC, "kill").verdict(THERE).broken
    for word in ("message 1 ", "plain", QUEUE, "offset 0", "1.000 s", "1.100 s"):
        assert word in text


def batch_run(*, published: bool, aborted: bool = False, tried: bool = True, rows: tuple[int, ...]) -> Told:
    """Tell of a batch of two rows, of which some are seen."""
    run = Told()
    place = f"{STAGED}/broker-a/0"
    for number in (1, 2):
        run.send(number, WorkloadKind.STAGED, STAGED)
    run.note("batch", name="q-0", numbers=[1, 2])
    if tried:
        run.note("publish", name="q-0")
    if published:
        run.note("published", name="q-0")
    if aborted:
        run.note("aborted", name="q-0")
    run.empty(place)
    for at, number in enumerate(rows):
        run.store(number, at, place=place, kind=WorkloadKind.STAGED)
    run.settle()
    return run


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (batch_run(published=True, rows=(1, 1, 2)), "twice"),
        (batch_run(published=True, rows=()), "absent"),
        (batch_run(published=False, rows=(2,)), "torn"),
        (batch_run(published=False, tried=False, rows=(1, 2)), "never published"),
        (batch_run(published=False, aborted=True, tried=False, rows=(1,)), "seen"),
    ],
)
def test_every_way_to_tear_a_batch_is_found(run: Told, word: str) -> None:
    (text,) = run.verdict(WHOLE).broken
    assert word in text


@pytest.mark.parametrize("rows", [(), (1, 2)])
def test_a_batch_of_which_nobody_knows_is_there_or_not(rows: tuple[int, ...]) -> None:
    assert batch_run(published=False, rows=rows).verdict(WHOLE).broken == []


def test_a_recall_whose_answer_was_lost_promises_nothing() -> None:
    run = Told()
    run.send(1, WorkloadKind.TIMED, TIMED, delay_s=1, is_delayed=True)
    run.ack(1, place=f"{TIMED}/broker-a/0")
    run.note("recall", number=1)
    run.note("recall_failed", number=1)
    run.empty(f"{TIMED}/broker-a/0")
    run.settle()
    assert run.verdict("recalled messages do not come").checked == 0
    assert run.verdict(THERE).checked == 0


def test_a_recall_that_was_refused_leaves_the_message_where_it_is() -> None:
    run = Told()
    run.send(1, WorkloadKind.TIMED, TIMED, delay_s=1, is_delayed=True)
    run.ack(1, place=f"{TIMED}/broker-a/0")
    run.note("recall", number=1)
    run.note("recall_refused", number=1)
    run.empty(f"{TIMED}/broker-a/0")
    run.settle()
    assert len(run.verdict(THERE).broken) == 1


def commits(*, fault_at: float | None, read: int) -> Told:
    """Tell of two commits, the second at 8 s, and of what is read at 12 s."""
    run = Told()
    for at, offset in ((1.0, 3), (8.0, 5)):
        run.note("commit", at=at, group=PULLERS, place=QUEUE, offset=offset)
        run.note("committed", at=at, group=PULLERS, place=QUEUE, offset=offset)
    if fault_at is not None:
        run.note("fault", at=fault_at, what="kill", whom="broker-a")
    run.note("recorded", at=12.0, group=PULLERS, place=QUEUE, offset=read)
    return run


def test_a_crash_may_take_back_a_commit_that_was_not_saved() -> None:
    assert commits(fault_at=8.5, read=3).verdict(BACK).broken == []


def test_a_crash_does_not_take_back_a_commit_that_was_saved() -> None:
    assert len(commits(fault_at=8.5, read=0).verdict(BACK).broken) == 1


def test_progress_that_nobody_committed_is_found_over_a_crash() -> None:
    assert len(commits(fault_at=8.5, read=7).verdict(BACK).broken) == 1


def election(*, asked_at: float, acked_at: float, back_at: float | None = None, fault: str = "kill") -> Told:
    """Tell of a second master that is elected at 9 s, and of an acknowledgement of the first."""
    run = Told(SYNC)
    run.note("leader", at=1.0, address=FIRST)
    run.note("fault", at=8.0, what=fault, whom="broker-a", for_s=5.0)
    run.note("leader", at=9.0, address=SECOND)
    if back_at is not None:
        run.note("leader", at=back_at, address=FIRST)
    run.send(1, at=asked_at)
    run.ack(1, host=FIRST, at=acked_at)
    return run


def test_an_answer_that_was_under_way_at_an_election_is_no_second_master() -> None:
    assert election(asked_at=8.9, acked_at=10.0).verdict(MASTER).broken == []


def test_an_answer_to_what_was_asked_after_an_election_is_a_second_master() -> None:
    assert len(election(asked_at=9.2, acked_at=9.3).verdict(MASTER).broken) == 1


def test_an_answer_long_after_an_election_is_a_second_master() -> None:
    assert len(election(asked_at=8.9, acked_at=11.5).verdict(MASTER).broken) == 1


def test_a_slow_network_excuses_an_answer_that_comes_late_and_no_more() -> None:
    assert election(asked_at=8.9, acked_at=11.5, fault="slow-network").verdict(MASTER).broken == []
    assert len(election(asked_at=9.2, acked_at=11.5, fault="slow-network").verdict(MASTER).broken) == 1


def test_a_master_that_was_elected_again_acknowledges_as_it_should() -> None:
    assert election(asked_at=13.0, acked_at=13.1, back_at=12.0).verdict(MASTER).broken == []


def test_two_brokers_that_acknowledge_for_one_group_without_failover_are_found() -> None:
    run = Told(Promises(Topology.MASTER_SLAVE, replicas=2))
    for number, host in ((1, FIRST), (2, SECOND)):
        run.send(number)
        run.ack(number, number, host=host)
    assert len(run.verdict(MASTER).broken) == 1


def test_a_delivery_is_late_after_the_faults_only_when_it_is_very_late() -> None:
    run = Told()
    run.subscribe(READERS, PLAIN)
    for number in (1, 2):
        run.send(number, at=float(number))
        run.ack(number, number)
    run.note("fault", at=4.0, what="kill", whom="broker-a")
    run.note("settle", at=20.0)
    run.deliver(1, 1, at=50.0)
    run.deliver(2, 2, at=90.0)
    (text,) = run.verdict("messages come in time").broken
    assert "message 2 " in text


def test_a_message_may_come_again_after_a_fault() -> None:
    run = Told()
    run.send(1)
    run.deliver(1)
    run.note("client_ended")
    run.deliver(1)
    assert run.verdict("messages come once while nothing is wrong").broken == []


def test_clocks_that_jump_say_nothing_about_what_is_early() -> None:
    run = Told()
    run.send(1, WorkloadKind.DELAYED, PLAIN, at=1.0, delay_s=5, is_delayed=True)
    run.note("fault", fault="clock-jump", lasts_s=3.0)
    run.deliver(1, at=2.0, kind=WorkloadKind.DELAYED)
    assert run.verdict("delayed messages do not come early").checked == 0


def test_a_queue_that_was_read_twice_counts_as_it_was_read_last() -> None:
    run = Told()
    run.send(1)
    run.ack(1)
    run.store(1)
    run.settle()
    run.settle()
    assert run.broken() == {}


def passed_over(promises: Promises) -> Told:
    """Tell of an offset that a group read before a power cut freed it, and that another message got then."""
    run = Told(promises)
    run.subscribe(READERS, PLAIN)
    run.send(1, at=1.0)
    run.deliver(1, 0)
    run.note("fault", at=2.0, what="power", whom="broker-a")
    run.send(2, at=30.0)
    run.ack(2, 0)
    run.store(2, 0)
    run.settle(at=40.0)
    return run


def test_a_group_may_pass_who_got_the_offset_of_a_lost_message() -> None:
    promises = Promises(has_power_cuts=True)
    assert passed_over(promises).verdict("every group gets its messages").broken == []


@pytest.mark.parametrize("is_sync_flush", [False, True])
def test_a_group_may_pass_a_retried_message_at_the_offset_of_a_lost_one(is_sync_flush: bool) -> None:
    retry, failing = f"%RETRY%{FAILERS}/broker-a/0", f"{FAILING}/broker-a/0"
    run = Told(Promises(has_power_cuts=True, is_sync_flush=is_sync_flush))
    run.subscribe(FAILERS, FAILING)
    run.deliver(1, 0, place=retry, group=FAILERS, times=1, kind=WorkloadKind.FAILING)
    run.note("fault", at=2.0, what="power", whom="broker-a")
    run.send(2, WorkloadKind.FAILING, FAILING, at=30.0, failures=1)
    run.ack(2, 0, place=failing)
    run.deliver(2, 0, place=failing, group=FAILERS, done=False, kind=WorkloadKind.FAILING)
    run.store(2, 0, place=failing, kind=WorkloadKind.FAILING)
    run.store(2, 0, place=retry, kind=WorkloadKind.FAILING)
    run.settle(at=40.0)

    assert len(run.verdict("every group gets its messages").broken) == is_sync_flush


def test_a_group_with_a_filter_passes_what_it_was_not_shown() -> None:
    run = Told(Promises(has_power_cuts=True))
    run.subscribe(READERS, PLAIN, tags=["b"])
    run.send(1, at=1.0, tag="a")
    run.ack(1, 0)
    run.note("fault", at=2.0, what="power", whom="broker-a")
    run.send(2, at=30.0, tag="b")
    run.ack(2, 0)
    run.send(3, at=31.0, tag="b")
    run.ack(3, 1)
    for number in (2, 3):
        run.store(number, number - 2)
    run.settle(at=40.0)
    # The third stands where nothing stood before it.
    (text,) = run.verdict("every group gets its messages").broken
    assert "message 3" in text


def test_a_group_passes_nobody_where_nothing_is_lost() -> None:
    promises = Promises(is_sync_flush=True, has_power_cuts=True)
    assert len(passed_over(promises).verdict("every group gets its messages").broken) == 1


def test_a_replayed_dead_letter_that_is_given_up_again_came_again() -> None:
    run = Told()
    run.send(1, WorkloadKind.FAILING, FAILING, failures=99)
    run.deliver(1, group=FAILERS, times=2, done=False, kind=WorkloadKind.FAILING)
    run.note("replayed", number=1)
    run.deliver(1, 1, group=FAILERS, times=2, done=False, kind=WorkloadKind.FAILING)
    verdict = run.verdict("replayed dead letters come again")
    assert (verdict.checked, verdict.broken) == (1, [])


@pytest.mark.parametrize(("promises", "count"), [(Promises(), 1), (Promises(has_power_cuts=True), 0)])
def test_a_dead_letter_that_is_gone_is_found_unless_it_may_be_lost(promises: Promises, count: int) -> None:
    run = Told(promises)
    run.send(1, WorkloadKind.FAILING, FAILING, failures=99)
    run.deliver(1, group=FAILERS, times=2, done=False, kind=WorkloadKind.FAILING)
    run.note("fault", what="power" if promises.has_power_cuts else "kill", whom="broker-a")
    run.settle(at=20.0)
    assert len(run.verdict("what a group gives up is a dead letter, once").broken) == count


@pytest.mark.parametrize(("places", "count"), [((0, 0, 0), 0), ((0, 1, 1), 0), ((0, 1, 2), 1), ((2,), 1)])
def test_tries_of_a_consumer_that_could_not_send_back_make_no_dead_letter(
    places: tuple[int, ...], count: int
) -> None:
    """The broker that takes it back goes by the record: only one that was stored for the last try ends so."""
    run = Told()
    run.send(1, WorkloadKind.FAILING, FAILING, failures=99)
    for times, place in enumerate(places, 3 - len(places)):
        run.deliver(1, place, group=FAILERS, times=times, done=False, kind=WorkloadKind.FAILING)
    run.settle(at=20.0)
    assert len(run.verdict("what a group gives up is a dead letter, once").broken) == count


def seen_and_gone(topology: Topology, *, is_sync: bool) -> Told:
    """Tell of a message that a reader saw, and an end that a client heard, before a power cut took both."""
    run = Told(Promises(topology, is_sync_flush=is_sync, is_sync_master=True, has_power_cuts=True))
    run.send(1)
    run.deliver(1)
    run.note("end", code="GET_MAX_OFFSET", place=QUEUE, end=1)
    run.note("fault", what="power", whom="broker-a")
    run.empty(QUEUE)
    run.settle()
    return run


SEEN = ("what readers saw is not taken back", "ends that brokers tell are confirmed")


@pytest.mark.parametrize("promise", SEEN)
@pytest.mark.parametrize(("topology", "is_sync"), [(Topology.ALONE, False), (Topology.MASTER_SLAVE, True)])
def test_what_was_seen_before_a_power_cut_may_be_taken_back(
    topology: Topology, is_sync: bool, promise: str
) -> None:
    """Under asynchronous flush, or when a slave showed it that is ahead of its master's disk."""
    assert seen_and_gone(topology, is_sync=is_sync).verdict(promise).checked == 0


@pytest.mark.parametrize("promise", SEEN)
@pytest.mark.parametrize("topology", [Topology.ALONE, Topology.FAILOVER])
def test_what_was_seen_under_synchronous_flush_is_not_taken_back(topology: Topology, promise: str) -> None:
    assert len(seen_and_gone(topology, is_sync=True).verdict(promise).broken) == 1


@pytest.mark.parametrize(("at", "count"), [(19.0, 1), (21.0, 0)])
def test_what_was_seen_after_the_run_had_settled_may_be_newer_than_the_final_log(
    at: float, count: int
) -> None:
    run = Told(SYNC)
    run.send(1)
    run.empty(QUEUE)
    run.settle(at=20.0)
    run.deliver(1, at=at)
    assert len(run.verdict("what readers saw is not taken back").broken) == count


def test_who_was_replaced_by_a_third_is_replaced_since_the_second() -> None:
    run = Told(SYNC)
    run.note("leader", at=1.0, address=FIRST)
    run.note("leader", at=5.0, address=SECOND)
    run.note("leader", at=9.0, address="10.0.0.3:10911")
    run.send(1, at=6.0)
    run.ack(1, host=FIRST, at=9.1)
    (text,) = run.verdict(MASTER).broken
    assert f"{SECOND} was elected at 5.000 s" in text


def test_half_messages_that_are_decided_when_they_are_asked_about_are_waited_for() -> None:
    run = Told()
    for number, fate in ((1, "commit-later"), (2, "commit"), (3, "never"), (4, "rollback-later")):
        run.send(number, WorkloadKind.TRANSACTION, PAID, fate=fate)
        if number != 4:
            run.ack(number, place=f"{PAID}/broker-a/0")
    model = Model(run.promises)
    model.see_all(run.history.events)
    assert [sent.number for sent in model.undecided()] == [1]
