"""Requests that wait for their answers, whoever waits for them: a task on a loop, or a thread."""

import asyncio
from typing import Any, Protocol

import msgspec

from pyromq.wire.command import Command


class AnswerPlace(Protocol):
    """A place for an answer, or for the error that comes instead: a future, or a thread's."""

    def done(self) -> bool:
        """Return whether there is one already, or nobody waits for one."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Put the answer there."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Put an error there."""
        ...


class Awaited(Protocol):
    """A request that waits for its answer, for a time by the clock of its connection."""

    @property
    def answer(self) -> AnswerPlace:
        """The place for the answer."""
        ...

    @property
    def give_up_at(self) -> float:
        """The time at which the answer is late."""
        ...

    @property
    def timeout_s(self) -> float:
        """The seconds that the answer had."""
        ...


class AwaitedAnswer(msgspec.Struct):
    """A request that waits for the command that answers it."""

    answer: asyncio.Future[Command]
    give_up_at: float
    timeout_s: float
