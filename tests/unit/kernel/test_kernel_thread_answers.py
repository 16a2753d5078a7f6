"""Threads that wait for answers: their turns, compiled and in Python."""

import random
import signal
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from pyromq.kernel import IS_COMPILED
from pyromq.net import thread_answers as python
from pyromq.testing.waiting import eventually

WAIT_S = 30.0
BOTH: list[ModuleType] = [python]
if IS_COMPILED:
    from pyromq._kernel.client import thread_answers as compiled

    BOTH.append(compiled)


@pytest.fixture(params=BOTH, ids=lambda module: module.__name__.split(".")[1])
def turns(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def test_threads_have_their_turns_one_after_the_other_and_the_last_wakes_the_reader(
    turns: ModuleType,
) -> None:
    chain = turns.WakeChain()
    order: list[int] = []
    answers = [turns.ThreadAnswer(chain) for _ in range(10)]
    again = [turns.ThreadAnswer(chain) for _ in range(10)]

    def go_on(number: int) -> None:
        while answers[number].outcome is None:
            answers[number].sleep(WAIT_S)
        order.append(number)
        again[number].sleep(WAIT_S)

    reader = turns.ThreadAnswer(chain)
    threads = [threading.Thread(target=go_on, args=(number,)) for number in range(10)]
    for answer in answers:
        # Its thread begins when it has its turn.
        answer.set_result("answer")
    before = chain.turns
    threads[0].start()
    watching = threading.Thread(target=reader.watch, args=(WAIT_S, 1))
    watching.start()
    for thread in threads[1:]:
        thread.start()
    watching.join(WAIT_S)
    assert not watching.is_alive(), "the last one wakes the reader"
    assert not chain
    assert chain.turns - before >= 10
    for answer in again:
        answer.wake()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert sorted(order) == list(range(10))


def test_a_reader_sees_that_a_thread_does_not_hand_on(turns: ModuleType) -> None:
    chain = turns.WakeChain()
    reader, first, second = (turns.ThreadAnswer(chain) for _ in range(3))
    first.set_result("answer")
    second.set_result("answer")

    assert reader.watch(0.001, 1) is False
    assert chain
    chain.release()
    assert not chain
    assert (first.wakes_next, second.wakes_next) == (False, True)


def test_released_threads_wake_each_other(turns: ModuleType) -> None:
    chain = turns.WakeChain()
    answers = [turns.ThreadAnswer(chain) for _ in range(10)]
    asleep = threading.Barrier(11)

    def go_on(answer: Any) -> None:
        asleep.wait(WAIT_S)
        while answer.outcome is None:
            answer.sleep(WAIT_S)
        if answer.wakes_next:
            chain.wake_next()

    threads = [threading.Thread(target=go_on, args=(answer,)) for answer in answers]
    for thread in threads:
        thread.start()
    asleep.wait(WAIT_S)
    for answer in answers:
        answer.set_exception("error")
    chain.release()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert not chain


def test_whoever_was_woken_before_it_sleeps_does_not_sleep(turns: ModuleType) -> None:
    answer = turns.ThreadAnswer(turns.WakeChain())
    answer.wake()
    answer.wake()
    answer.sleep(10_000.0)
    # Once.
    answer.sleep(0.0)


def test_one_that_left_and_one_that_reads_have_no_turn(turns: ModuleType) -> None:
    chain = turns.WakeChain()
    left, reading = turns.ThreadAnswer(chain), turns.ThreadAnswer(chain)
    left.set_result("answer")
    left.has_left = True
    assert chain
    assert chain.wake_next() is False
    reading.is_reading = True
    reading.set_result("answer")
    assert not chain
    assert reading.done()


def test_the_first_outcome_holds(turns: ModuleType) -> None:
    chain = turns.WakeChain()
    answer = turns.ThreadAnswer(chain)
    answer.set_result("answer")
    answer.set_exception("error")
    assert answer.outcome == "answer"
    assert chain.wake_next() is True
    assert not chain


def test_an_interrupt_reaches_a_thread_that_sleeps(turns: ModuleType) -> None:
    chain = turns.WakeChain()
    answer, other, watcher = (turns.ThreadAnswer(chain) for _ in range(3))
    main = threading.get_ident()

    def interrupt() -> None:
        # Woken by the main thread when that goes to sleep.
        watcher.watch(WAIT_S, 1)
        signal.pthread_kill(main, signal.SIGINT)

    other.set_result("answer")
    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        thread.start()
        eventually(lambda: chain.turns > 0)
        while True:
            answer.sleep(1.0)
    thread.join(WAIT_S)
    # It can go on sleeping.
    answer.wake()
    answer.sleep(10_000.0)


def _lives(module: ModuleType, seed: int) -> Iterator[tuple[Any, ...]]:
    """Do what chance says on one thread, and tell what is seen of it."""
    chance, chain = random.Random(seed), module.WakeChain()
    answers = [module.ThreadAnswer(chain) for _ in range(4)]
    for _ in range(400):
        at = chance.randrange(len(answers))
        answer, deed = answers[at], chance.randrange(9)
        seen: Any = None
        if deed == 0:
            answers[at] = module.ThreadAnswer(chain)
        elif deed == 1:
            answer.set_result(chance.randrange(100))
        elif deed == 2:
            answer.wake()
        elif deed == 3:
            answer.sleep(0.0)
        elif deed == 4:
            seen = answer.watch(0.0, 1)
        elif deed == 5:
            seen = chain.wake_next()
        elif deed == 6:
            chain.release()
        elif deed == 7:
            answer.is_reading = not answer.is_reading
        else:
            answer.has_left = True
        yield (
            at,
            deed,
            seen,
            bool(chain),
            chain.turns,
            *((one.outcome, one.done(), one.has_left, one.wakes_next) for one in answers),
        )


@pytest.mark.skipif(not IS_COMPILED, reason="compares both")
@pytest.mark.parametrize("seed", range(50))
def test_both_do_the_same(seed: int) -> None:
    assert list(_lives(compiled, seed)) == list(_lives(python, seed))
