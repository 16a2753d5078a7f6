"""Calling listeners, in tasks and on threads."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest
from push_messages import QUEUE, received, several

from pyromq.client.hooks import ConsumeHook, Consuming
from pyromq.client.push.calling import ListenerCaller, Listening, TaskCaller, ThreadCaller, calls
from pyromq.client.push.consume_outcome import Work
from pyromq.client.push.delivery import ConsumeResult, Delivery
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.clock import SystemClock
from pyromq.errors import ConfigError
from pyromq.testing.waiting import aeventually

Make = Callable[..., ListenerCaller]


@pytest.fixture(params=["tasks", "threads"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    made: list[ListenerCaller] = []

    def make(listener=None, *, batch_listener=None, size: int = 20, hooks=()) -> ListenerCaller:
        listening = Listening("g", calls(listener, batch_listener), hooks)
        if request.param == "tasks":
            made.append(TaskCaller(listening, size, SystemClock()))
        else:
            made.append(ThreadCaller(listening, size, SystemClock(), name="test"))
        return made[-1]

    yield make
    for caller in made:
        await caller.close(1)


def work_of(*offsets: int, state: ProcessQueue | None = None) -> Work:
    return Work(state, several(*offsets), QUEUE)


async def call(caller: ListenerCaller, work: Work) -> Work:
    ended: list[Work] = []
    caller.submit(work, ended.append)
    await aeventually(lambda: ended)
    return work


async def test_a_listener_gets_its_message(make: Make) -> None:
    got = []

    work = await call(make(got.append), work_of(7))

    assert [message.queue_offset for message in got] == [7]
    assert work.verdict is ConsumeResult.SUCCESS


@pytest.mark.row("CO-10")
async def test_a_batch_listener_gets_a_list(make: Make) -> None:
    got = []

    await call(make(batch_listener=lambda messages: got.extend(messages)), work_of(7, 8))

    assert [message.queue_offset for message in got] == [7, 8]


async def test_a_second_parameter_gets_the_delivery(make: Make) -> None:
    def listen(_message, delivery: Delivery) -> bool:
        delivery.delay_level = 5
        return False

    work = await call(make(listen), work_of(7))

    assert (work.delivery.delay_level, work.verdict) == (5, ConsumeResult.RECONSUME_LATER)


async def test_a_second_parameter_with_a_default_is_the_listeners_own(make: Make) -> None:
    got = []

    def listen(_message, own: str = "own") -> None:
        got.append(own)

    await call(make(listen), work_of(7))

    assert got == ["own"]


async def test_an_exception_is_a_retry_and_the_next_message_is_handled(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(message) -> None:
        if message.queue_offset == 1:
            raise ValueError("no such order")

    caller = make(listen)
    failed = await call(caller, work_of(1))
    fine = await call(caller, work_of(2))

    assert (failed.verdict, fine.verdict) == (ConsumeResult.RECONSUME_LATER, ConsumeResult.SUCCESS)
    assert isinstance(failed.error, ValueError)
    assert "the listener failed on message ID1" in caplog.text


async def test_an_answer_that_means_nothing_is_a_retry(make: Make) -> None:
    work = await call(make(lambda _message: 7), work_of(1))

    assert work.verdict is ConsumeResult.RECONSUME_LATER
    assert isinstance(work.error, ConfigError)


async def test_messages_of_a_queue_that_is_gone_are_not_handed_out(make: Make) -> None:
    got = []
    state = ProcessQueue(QUEUE, 0)
    state.is_dropped = True

    work = await call(make(got.append), work_of(1, state=state))

    assert (got, work.is_skipped) == ([], True)


async def test_a_closed_caller_calls_no_more(make: Make) -> None:
    got = []
    caller = make(got.append)
    await caller.close(0)

    work = await call(caller, work_of(1))

    assert (got, work.is_skipped) == ([], True)


async def test_hooks_are_called_around_the_listener_and_cannot_break_it(make: Make) -> None:
    seen = []

    class Watching(ConsumeHook):
        def before(self, consuming: Consuming) -> None:
            seen.append(("before", consuming.group, len(consuming.messages)))
            raise ValueError("a bad hook")

        def after(self, consuming: Consuming) -> None:
            seen.append(("after", consuming.is_success, type(consuming.error)))

    work = await call(make(lambda _message: None, hooks=(Watching(),)), work_of(1))

    assert seen == [("before", "g", 1), ("after", True, type(None))]
    assert work.verdict is ConsumeResult.SUCCESS


@pytest.mark.row("CO-08")
async def test_a_message_that_comes_while_coroutines_wait_is_called_up_to_the_limit() -> None:
    running, go = 0, asyncio.Event()

    async def listen(_message) -> None:
        nonlocal running
        running += 1
        await go.wait()
        running -= 1

    caller = TaskCaller(Listening("g", calls(listen, None)), 3, SystemClock())
    ended: list[Work] = []
    for offset, wanted in enumerate((1, 2, 3, 3)):
        caller.submit(work_of(offset), ended.append)
        await aeventually(lambda wanted=wanted: running == wanted)
    go.set()
    await aeventually(lambda: len(ended) == 4)
    await caller.close(1)


@pytest.mark.row("CO-08")
async def test_coroutines_run_at_the_same_time_up_to_the_limit() -> None:
    running, most, go = 0, 0, asyncio.Event()

    async def listen(_message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    caller = TaskCaller(Listening("g", calls(listen, None)), 3, SystemClock())
    ended: list[Work] = []
    for offset in range(8):
        caller.submit(work_of(offset), ended.append)
    await aeventually(lambda: running == 3)
    go.set()
    await aeventually(lambda: len(ended) == 8)

    assert most == 3
    await caller.close(1)


@pytest.mark.row("CO-08")
async def test_threads_run_at_the_same_time_up_to_the_limit() -> None:
    lock, go = threading.Lock(), threading.Event()
    running, most = 0, 0

    def listen(_message) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait(10)
        with lock:
            running -= 1

    caller = ThreadCaller(Listening("g", calls(listen, None)), 3, SystemClock(), name="test")
    ended: list[Work] = []
    for offset in range(8):
        caller.submit(work_of(offset), ended.append)
    await aeventually(lambda: running == 3)
    go.set()
    await aeventually(lambda: len(ended) == 8)

    assert most == 3
    await caller.close(1)


async def test_a_coroutine_on_threads_is_told_where_it_belongs() -> None:
    async def listen(_message) -> None: ...

    caller = ThreadCaller(Listening("g", calls(listen, None)), 3, SystemClock(), name="test")
    work = await call(caller, work_of(1))

    assert "pyromq.aio.PushConsumer" in str(work.error)
    await caller.close(1)


async def test_a_listener_that_exits_ends_only_itself() -> None:
    def listen(message) -> None:
        if message.queue_offset == 1:
            raise SystemExit(1)

    caller = ThreadCaller(Listening("g", calls(listen, None)), 1, SystemClock(), name="test")
    works = [await call(caller, work_of(offset)) for offset in (1, 2)]

    assert [work.verdict for work in works] == [ConsumeResult.RECONSUME_LATER, ConsumeResult.SUCCESS]
    await caller.close(1)


async def test_what_a_coroutine_cancels_is_its_own_failure() -> None:
    async def listen(_message) -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    caller = TaskCaller(Listening("g", calls(listen, None)), 3, SystemClock())
    work = await call(caller, work_of(1))

    assert work.verdict is ConsumeResult.RECONSUME_LATER
    await caller.close(1)


async def test_plain_functions_let_the_loop_live() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    caller = TaskCaller(Listening("g", calls(lambda _message: None, None)), 3, SystemClock())
    ended: list[Work] = []
    for offset in range(1_000):
        caller.submit(Work(None, [received(offset)], QUEUE), ended.append)
    await aeventually(lambda: len(ended) == 1_000)

    assert turns > 10
    counting.cancel()
    await caller.close(1)


async def test_closing_waits_for_what_runs_and_cancels_what_does_not_end() -> None:
    is_cancelled = asyncio.Event()

    async def listen(_message) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled.set()
            raise

    caller = TaskCaller(Listening("g", calls(listen, None)), 3, SystemClock())
    caller.submit(work_of(1), lambda _work: None)
    await asyncio.sleep(0)
    await caller.close(0)

    assert is_cancelled.is_set()


class Held:
    """A listener whose calls end when they are let go; `most` is how many ran at once."""

    def __init__(self, *, in_tasks: bool) -> None:
        self.listen = self._await if in_tasks else self._wait
        self.running = self.most = 0
        self._lock = threading.Lock()
        self._gates: list[threading.Event] = []

    def let_go(self, count: int) -> None:
        for _ in range(count):
            self._gates.pop(0).set()

    def _begin(self) -> threading.Event:
        gate = threading.Event()
        with self._lock:
            self._gates.append(gate)
            self.running += 1
            self.most = max(self.most, self.running)
        return gate

    def _end(self) -> None:
        with self._lock:
            self.running -= 1

    def _wait(self, _message) -> None:
        assert self._begin().wait(20)
        self._end()

    async def _await(self, _message) -> None:
        gate = self._begin()
        await aeventually(gate.is_set)
        self._end()


@pytest.fixture
def held(make: Make, request: pytest.FixtureRequest) -> Held:
    return Held(in_tasks="tasks" in request.node.callspec.id)


async def started(held: Held, count: int) -> None:
    await aeventually(lambda: held.running == count, what=f"{count} calls run")


@pytest.mark.row("CO-08")
async def test_more_calls_run_at_once_when_there_may_be_more(make: Make, held: Held) -> None:
    caller, ended = make(held.listen, size=1), []
    for offset in range(5):
        caller.submit(work_of(offset), ended.append)
    await started(held, 1)

    caller.resize(3)

    await started(held, 3)
    held.let_go(3)
    await aeventually(lambda: len(ended) == 3 and held.running == 2)
    held.let_go(2)
    await aeventually(lambda: len(ended) == 5)
    assert (held.most, caller.size) == (3, 3)


@pytest.mark.row("CO-08")
async def test_fewer_calls_run_at_once_when_those_that_run_have_ended(make: Make, held: Held) -> None:
    caller, ended = make(held.listen, size=4), []
    for offset in range(7):
        caller.submit(work_of(offset), ended.append)
    await started(held, 4)

    caller.resize(1)
    held.let_go(3)
    await aeventually(lambda: len(ended) == 3)
    assert held.running == 1
    for left in (3, 2, 1):
        held.let_go(1)
        await aeventually(lambda left=left: len(ended) == 7 - left and held.running == 1)
    held.let_go(1)
    await aeventually(lambda: len(ended) == 7)


async def test_threads_that_were_to_end_may_stay(make: Make, held: Held) -> None:
    caller, ended = make(held.listen, size=3), []
    for offset in range(6):
        caller.submit(work_of(offset), ended.append)
    await started(held, 3)

    caller.resize(1)
    caller.resize(3)
    held.let_go(3)

    await aeventually(lambda: len(ended) == 3 and held.running == 3)
    held.let_go(3)
    await aeventually(lambda: len(ended) == 6)
    assert held.most == 3


async def test_what_waits_at_the_end_is_handed_back_after_calls_became_fewer(make: Make, held: Held) -> None:
    caller, ended = make(held.listen, size=3), []
    for offset in range(9):
        caller.submit(work_of(offset), ended.append)
    await started(held, 3)
    caller.resize(1)

    async def let_go() -> None:
        held.let_go(3)

    # In this order: the caller is closed when its calls end.
    await asyncio.gather(caller.close(20), let_go())

    await aeventually(lambda: len(ended) == 9)
    assert sum(work.is_skipped for work in ended) == 6


@pytest.mark.parametrize("kind", ["tasks", "threads"])
async def test_who_waits_for_rest_waits_for_the_call_that_runs(kind: str) -> None:
    is_free, ended = threading.Event(), []

    async def listen_in_a_task(_message) -> None:
        await asyncio.to_thread(is_free.wait, 10)

    def listen_on_a_thread(_message) -> None:
        is_free.wait(10)

    if kind == "tasks":
        caller: ListenerCaller = TaskCaller(
            Listening("g", calls(listen_in_a_task, None), ()), 2, SystemClock()
        )
    else:
        caller = ThreadCaller(
            Listening("g", calls(listen_on_a_thread, None), ()), 2, SystemClock(), name="test"
        )
    caller.submit(work_of(1), ended.append)

    await caller.rest(0.01)
    assert not ended
    is_free.set()
    await caller.rest(60)

    assert ended
    await caller.rest(60)
    await caller.close(1)
