"""Methods of an engine are declared once: both faces have them, and a blocking face hosts the engine."""

import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.operations.declaration import ClientOperations, EngineCall, EngineOperation, OnEngine
from pyromq.client.sync.blocking_face import BlockingFace
from pyromq.client.sync.hosted_engine import HostedEngine
from pyromq.errors import ClientClosed, ConfigError


class Tally:
    """An engine that notes the threads on which it is called."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.is_started = False
        self.threads: list[str] = []

    async def start(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ConfigError("not yet")
        self.is_started = True

    def note(self) -> int:
        self.threads.append(threading.current_thread().name)
        return len(self.threads)

    def running(self) -> bool:
        if not self.is_started:
            raise ClientClosed("in the words of an awaitable client")
        return True

    async def wait(self, number: int) -> int:
        return self.note() + number

    async def end(self) -> None:
        self.is_started = False


class TallyOperations(ClientOperations):
    @EngineCall
    def note(self) -> OnEngine[Tally, int]:
        """Count the call."""
        return lambda tally: tally.note()

    @EngineCall
    def running(self) -> OnEngine[Tally, bool]:
        """Say that it runs."""
        return lambda tally: tally.running()

    @EngineOperation
    def wait(self, number: int = 1) -> OnEngine[Tally, Coroutine[Any, Any, int]]:
        """Wait for the count."""
        return lambda tally: tally.wait(number)


class BlockingTally(TallyOperations, BlockingFace):
    def __init__(self, engine: Tally) -> None:
        self._engine = HostedEngine("tally", engine)

    def start(self) -> None:
        self._engine.start()

    def close(self) -> None:
        self._engine.close(lambda engine: engine.end())


class AwaitableTally(TallyOperations, AwaitableFace):
    def __init__(self, engine: Tally) -> None:
        self._engine = engine

    async def start(self) -> None:
        await self._engine.start()

    async def close(self) -> None:
        await self._engine.end()


def test_a_blocking_face_has_the_engine_called_on_its_thread_once_it_is_started() -> None:
    engine = Tally()
    face = BlockingTally(engine)
    assert face.note() == 1

    with face:
        assert (face.note(), face.wait(10)) == (2, 13)

    assert engine.threads == [threading.current_thread().name, "pyromq-tally", "pyromq-tally"]
    assert not engine.is_started
    with pytest.raises(ClientClosed, match="tally is closed"):
        face.note()


async def test_an_awaitable_face_calls_the_engine_itself() -> None:
    async with AwaitableTally(Tally()) as face:
        assert face.note() == 1
        assert await face.wait(10) == 12


def test_a_face_that_is_not_started_says_so_in_the_words_of_a_blocking_client() -> None:
    with pytest.raises(ClientClosed, match="tally is not started; call start"):
        BlockingTally(Tally()).running()


def test_a_start_that_failed_may_be_tried_again() -> None:
    face = BlockingTally(Tally(failures=1))
    with pytest.raises(ConfigError):
        face.start()

    with face:
        assert face.running()


@pytest.mark.parametrize("face", [BlockingTally, AwaitableTally])
def test_parameters_and_results_are_those_of_the_declaration(face: type) -> None:
    assert str(inspect.signature(vars(face)["note"])) == "(self) -> int"
    assert str(inspect.signature(vars(face)["wait"])) == "(self, number: int = 1) -> int"
    assert inspect.getdoc(vars(face)["wait"]) == "Wait for the count."
