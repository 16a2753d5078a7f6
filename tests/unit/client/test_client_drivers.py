import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyromq.client.drivers import Asyncio, Blocking
from pyromq.client.steps import Alone, Call, Pause, Plan
from pyromq.codes import RequestCode
from pyromq.errors import ClientClosed, ConnectFailed, RequestTimeout
from pyromq.testing.waiting import aeventually, eventually
from pyromq.wire.command import Command

ASK = Call("a:1", Command(RequestCode.HEART_BEAT), 1.0)


class EchoLinks:
    """Links whose far end answers every request with the request, unless it is down."""

    def __init__(self) -> None:
        self.is_down = False
        self.oneways: list[str] = []
        self.is_closed = False

    def request(self, address: str, command: Command, timeout_s: float) -> Command:
        if self.is_down:
            raise ConnectFailed(address)
        return command

    def oneway(self, address: str, command: Command, timeout_s: float) -> None:
        self.oneways.append(address)

    def close(self) -> None:
        self.is_closed = True


class AsyncEchoLinks:
    """The same, awaitable."""

    def __init__(self) -> None:
        self.inner = EchoLinks()

    async def request(self, address: str, command: Command, timeout_s: float) -> Command:
        return self.inner.request(address, command, timeout_s)

    async def oneway(self, address: str, command: Command, timeout_s: float) -> None:
        self.inner.oneway(address, command, timeout_s)

    async def close(self) -> None:
        self.inner.close()


class Bench:
    """One driver or the other, run from a blocking test."""

    def __init__(self, kind: str) -> None:
        if kind == "blocking":
            self.links = EchoLinks()
            self.run = Blocking(self.links).run  # type: ignore[arg-type]
        else:
            links = AsyncEchoLinks()
            self.links = links.inner
            driver = Asyncio(links)  # type: ignore[arg-type]
            self.run = lambda plan: asyncio.run(driver.run(plan))


@pytest.fixture(params=["blocking", "asyncio"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_an_answer_comes_back_into_the_plan(bench: Bench) -> None:
    def plan() -> Plan[object]:
        return (yield ASK)

    assert bench.run(plan()) is ASK.command


def test_a_failure_is_thrown_into_the_plan_which_may_go_on(bench: Bench) -> None:
    bench.links.is_down = True

    def plan() -> Plan[str]:
        try:
            yield ASK
        except ConnectFailed:
            yield Pause(0.0)
            return "mended"
        return "no failure"

    assert bench.run(plan()) == "mended"


def test_a_failure_that_the_plan_does_not_mend_is_the_caller_s(bench: Bench) -> None:
    bench.links.is_down = True

    def plan() -> Plan[None]:
        yield ASK

    with pytest.raises(ConnectFailed):
        bench.run(plan())


def test_a_oneway_call_brings_nothing_back(bench: Bench) -> None:
    def plan() -> Plan[object]:
        return (yield Call("a:1", ASK.command, 1.0, oneway=True))

    assert bench.run(plan()) is None
    assert bench.links.oneways == ["a:1"]


def test_work_that_is_done_alone_may_fail_into_the_plan(bench: Bench) -> None:
    def begin() -> Plan[None]:
        yield Pause(0.0)
        raise ConnectFailed("there")

    def plan() -> Plan[str]:
        try:
            yield Alone("key", begin, 1.0)
        except ConnectFailed as error:
            return str(error)
        return "no failure"

    assert bench.run(plan()) == "there"


class Shared:
    """Work that 20 plans want done, and that one of them does while the others wait."""

    def __init__(self) -> None:
        self.is_done = False
        self.times = 0
        self.waiting = 0

    def plan(self) -> Plan[None]:
        self.waiting += 1
        yield Alone("key", self._begin, 10.0)

    def _begin(self) -> Plan[None]:
        if not self.is_done:
            yield Pause(0.01)
            self.times += 1
            self.is_done = True


@pytest.mark.row("PR-15")
def test_threads_that_need_the_same_do_it_once() -> None:
    shared, driver = Shared(), Blocking(EchoLinks())  # type: ignore[arg-type]

    with ThreadPoolExecutor(20) as pool:
        for future in [pool.submit(driver.run, shared.plan()) for _ in range(20)]:
            future.result()

    assert shared.times == 1


@pytest.mark.row("PR-15")
async def test_tasks_that_need_the_same_do_it_once() -> None:
    shared, driver = Shared(), Asyncio(AsyncEchoLinks())  # type: ignore[arg-type]

    await asyncio.gather(*(driver.run(shared.plan()) for _ in range(20)))

    assert shared.times == 1


@pytest.mark.row("PR-15")
def test_a_thread_does_not_wait_for_another_past_its_time() -> None:
    driver = Blocking(EchoLinks())  # type: ignore[arg-type]
    entered, leave = threading.Event(), threading.Event()

    def long() -> Plan[None]:
        entered.set()
        leave.wait(10)
        yield Pause(0.0)

    def plan(work, timeout_s: float) -> Plan[None]:
        yield Alone("key", work, timeout_s)

    busy = threading.Thread(target=driver.run, args=(plan(long, 1.0),))
    busy.start()
    entered.wait(10)
    try:
        with pytest.raises(RequestTimeout):
            driver.run(plan(long, 0.01))
    finally:
        leave.set()
        busy.join()


async def test_a_task_does_not_wait_for_another_past_its_time() -> None:
    driver = Asyncio(AsyncEchoLinks())  # type: ignore[arg-type]

    def forever() -> Plan[None]:
        yield Pause(60.0)

    def plan(timeout_s: float) -> Plan[None]:
        yield Alone("key", forever, timeout_s)

    busy = asyncio.create_task(driver.run(plan(1.0)))
    await aeventually(lambda: driver._turns and driver._turns["key"].locked())
    with pytest.raises(RequestTimeout):
        await driver.run(plan(0.01))
    busy.cancel()
    await asyncio.wait({busy})


def test_closing_ends_a_pause() -> None:
    driver = Blocking(EchoLinks())  # type: ignore[arg-type]
    ended: list[type] = []

    def plan() -> Plan[None]:
        yield Pause(60.0)

    def run() -> None:
        try:
            driver.run(plan())
        except ClientClosed as error:
            ended.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    driver.close()
    thread.join()

    assert eventually(lambda: ended) == [ClientClosed]


async def test_a_cancelled_plan_is_closed() -> None:
    driver = Asyncio(AsyncEchoLinks())  # type: ignore[arg-type]
    log: list[str] = []

    def plan() -> Plan[None]:
        try:
            log.append("begun")
            yield Pause(60.0)
        finally:
            log.append("closed")

    task = asyncio.create_task(driver.run(plan()))
    await aeventually(lambda: log)
    task.cancel()
    await asyncio.wait({task})

    assert log == ["begun", "closed"]
