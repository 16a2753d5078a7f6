"""A method that is declared once is a method of both faces."""

import inspect
from collections.abc import AsyncIterator, Iterator

import pytest

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.client_session import new_session
from pyromq.client.operations.declaration import ClientOperations, IteratingOperation, Operation
from pyromq.client.steps import Alone, HandOut, Items, Pause, Plan
from pyromq.client.sync.blocking_face import BlockingFace
from pyromq.config.settings import ClientSettings
from pyromq.errors import ClientClosed, ConnectFailed


class CounterOperations(ClientOperations):
    def __init__(self) -> None:
        self.ended: list[str] = []
        self._set_runner("counter", lambda: new_session("", ("127.0.0.1:1",), ClientSettings()))

    @Operation
    def twice(self, number: int, *, plus: int = 0) -> Plan[int]:
        """Return the double."""
        yield Pause(0)
        return 2 * number + plus

    @IteratingOperation
    def count(self, end: int) -> Items[int]:
        """Count up to a number."""
        try:
            for number in range(end):
                yield Pause(0)
                yield HandOut(number)
        finally:
            self.ended.append("count")

    @IteratingOperation
    def survive(self) -> Items[str]:
        """Go on after a step that failed."""
        try:
            yield Alone("fails", fails, 1.0)
        except ConnectFailed as error:
            yield HandOut(str(error))
        yield HandOut("went on")


def fails() -> Plan[None]:
    yield Pause(0)
    raise ConnectFailed("away")


class BlockingCounter(CounterOperations, BlockingFace):
    pass


class AwaitableCounter(CounterOperations, AwaitableFace):
    pass


def test_a_blocking_face_returns_what_the_plan_returns() -> None:
    with BlockingCounter() as counter:
        assert counter.twice(4, plus=1) == 9


async def test_an_awaitable_face_returns_a_coroutine_of_it() -> None:
    async with AwaitableCounter() as counter:
        assert await counter.twice(4, plus=1) == 9


@pytest.mark.parametrize("face", [BlockingCounter, AwaitableCounter])
def test_parameters_and_text_are_those_of_the_declaration(face: type) -> None:
    method = vars(face)["twice"]

    assert str(inspect.signature(method)) == "(self, number: int, *, plus: int = 0) -> int"
    assert inspect.getdoc(method) == "Return the double."
    assert (method.__name__, method.__module__) == ("twice", __name__)


def test_each_face_says_how_it_iterates() -> None:
    assert inspect.signature(BlockingCounter.count).return_annotation == Iterator[int]
    assert inspect.signature(AwaitableCounter.count).return_annotation == AsyncIterator[int]
    assert inspect.iscoroutinefunction(AwaitableCounter.twice)
    assert not inspect.iscoroutinefunction(BlockingCounter.twice)


def test_a_blocking_face_hands_items_out() -> None:
    with BlockingCounter() as counter:
        assert list(counter.count(3)) == [0, 1, 2]
        assert list(counter.survive()) == ["away", "went on"]
        assert counter.ended == ["count"]


async def test_an_awaitable_face_hands_items_out() -> None:
    async with AwaitableCounter() as counter:
        assert [number async for number in counter.count(3)] == [0, 1, 2]
        assert [word async for word in counter.survive()] == ["away", "went on"]
        assert counter.ended == ["count"]


def test_an_iteration_that_is_left_ends_its_plan() -> None:
    with BlockingCounter() as counter:
        numbers = counter.count(3)
        assert next(numbers) == 0
        assert counter.ended == []
        del numbers

        assert counter.ended == ["count"]


def test_an_iteration_does_not_survive_its_client() -> None:
    with BlockingCounter() as counter:
        numbers = counter.count(3)
        assert next(numbers) == 0

    with pytest.raises(ClientClosed):
        next(numbers)
    assert counter.ended == ["count"]


def test_a_method_may_be_overridden_and_called_by_super() -> None:
    class Tripled(BlockingCounter):
        def twice(self, number: int, *, plus: int = 0) -> int:
            return super().twice(number, plus=plus) + number

    with Tripled() as counter:
        assert counter.twice(4) == 12
