import asyncio
from collections.abc import Generator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import Refused
from pyromq.net import metrics
from pyromq.net.latency import RequestTimes
from pyromq.net.metrics import Figure, FigureKind, Histogram, MetricsPage, in_slices
from pyromq.net.routes import Answer, Handled, Request, RequestTable, Route

CODE = RequestCode.GET_BROKER_CONFIG


def counts(times: RequestTimes) -> dict[tuple[str, ...], float]:
    return {labels: buckets[-1][1] for labels, buckets, _ in times.histogram.read()}


def labels(response: str, *, held: str = "false", code: str = "get_broker_config") -> tuple[str, ...]:
    return ("remoting", code, response, held)


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram("sizes", "Sizes.", ("topic",), (1, 10))
    for value in (1, 5, 10, 11):
        histogram.observe(value, ("orders",))
    histogram.observe(2, ("orders",), count=3)

    assert histogram.read() == [(("orders",), [("1", 1.0), ("10", 6.0), ("+Inf", 7.0)], 33.0)]


async def test_long_work_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SLICE_S", 0.0)
    turns: list[str] = []

    def work() -> Generator[None, None, None]:
        for _ in range(3):
            turns.append("work")
            yield

    async def other() -> None:
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await in_slices(work())
    await beside

    assert turns == ["work", "other"] * 3


async def test_a_page_is_prepared_before_it_is_read() -> None:
    table: dict[tuple[str, ...], float] = {}

    def prepare() -> Generator[None, None, None]:
        yield
        table[()] = 7

    page = MetricsPage(
        [Figure("pyromq_sevens_total", "Sevens.", (), lambda: table, FigureKind.COUNTER)],
        {"node_id": "a"},
        prepare=(prepare,),
    )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(page)

    text = (await asyncio.to_thread(generate_latest, registry)).decode()

    assert 'pyromq_sevens_total{node_id="a"} 7.0' in text


def timed_table(handle: object) -> tuple[RequestTimes, RequestTable]:
    times, table = RequestTimes(), RequestTable([Route(CODE, handle)])  # type: ignore[arg-type]
    times.time_routes(table)
    return times, table


def call(table: RequestTable) -> Handled:
    return table.by_code[int(CODE)].handle(Request(None, None, None))  # type: ignore[arg-type]


async def test_answers_now_and_later_are_timed_alike() -> None:
    async def later(_request: object) -> Answer:
        return Answer(ResponseCode.SYSTEM_BUSY)

    def promised(_request: object) -> "asyncio.Future[Answer]":
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        future.set_result(Answer())
        return future

    for handle, response in ((later, "system_busy"), (promised, "success"), (lambda _: Answer(), "success")):
        times, table = timed_table(handle)
        handled = call(table)
        if not isinstance(handled, Answer):
            assert handled is not None
            await handled
            await asyncio.sleep(0)
        assert counts(times) == {labels(response): 1}


async def test_refusals_are_timed_and_still_raised() -> None:
    def refuse(_request: object) -> Answer:
        raise Refused(ResponseCode.NO_PERMISSION, "no")

    async def refuse_later(_request: object) -> Answer:
        raise Refused(ResponseCode.NO_PERMISSION, "no")

    times, table = timed_table(refuse)
    with pytest.raises(Refused):
        call(table)
    assert counts(times) == {labels("no_permission"): 1}

    times, table = timed_table(refuse_later)
    with pytest.raises(Refused):
        await call(table)  # type: ignore[misc]
    assert counts(times) == {labels("no_permission"): 1}


def test_a_shortcut_is_timed_only_when_it_handled_something() -> None:
    times, answers = RequestTimes(), [True, False, True]
    timed = times.around(lambda _links: answers.pop(), RequestCode.PULL_MESSAGE)
    assert timed is not None

    for _ in range(3):
        timed(())

    assert counts(times) == {labels("success", code="pull_message"): 2}
    assert times.around(None, RequestCode.PULL_MESSAGE) is None
