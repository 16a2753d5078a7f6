"""The steps of a plan: what a client operation asks of the driver that carries it out.

An operation is a generator. It yields steps and is sent the answers; a failure is thrown into it as one of
our errors. So it holds every rule (retries, budgets, failover) and no socket, and one body serves the
blocking and the asyncio face. A test plays the broker by hand.

    plan ── Call(address, command) ──► driver ── frame ──► broker
    plan ◄── Command, or NetworkError ── driver ◄── frame ── broker
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from pyromq.client.consumer.broadcast_offsets import LocalOffsets
from pyromq.clock import Clock
from pyromq.codes import Language, RequestCode, ResponseCode
from pyromq.errors import PyroError, RequestTimeout, refusal
from pyromq.model import MessageQueue
from pyromq.wire.command import Command
from pyromq.wire.header import Header, write_header

T = TypeVar("T")


class Call(msgspec.Struct, frozen=True):
    """Send a command and bring the answer; a oneway command has none, and None comes back."""

    address: str
    command: Command
    timeout_s: float
    oneway: bool = False


@dataclass(frozen=True, slots=True)
class CallAll:
    """Send several commands to one address without waiting in between; bring their answers in that order."""

    address: str
    commands: Sequence[Command]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class CallAny:
    """Send commands to several addresses; bring the first answer that comes, and read no other."""

    calls: Sequence[Call]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Let time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Alone:
    """Carry out `begin()` while no other operation of this client is at the same `key`.

    Whoever waited for its turn looks first whether the work is done already: 64 sends to a new topic ask the
    name server once.
    """

    key: str
    begin: "Callable[[], Plan[None]]"
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Fetch:
    """Bring what an HTTP address says, as bytes."""

    url: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Save:
    """Write queue offsets, by the queues' names on the wire, to a broadcasting consumer's file."""

    to: LocalOffsets
    offsets: Mapping[MessageQueue, int]


class Compute(msgspec.Struct):
    """Call a function that takes long; a loop calls it on a thread. The driver notes the result here."""

    call: Callable[[], Any]
    result: Any = None


class Await(msgspec.Struct):
    """Await something on the loop, and note the result here. Only plans of awaitable clients do so."""

    call: Callable[[], Awaitable[Any]]
    result: Any = None


@dataclass(frozen=True, slots=True)
class HandOut(Generic[T]):
    """Hand an item to whoever iterates. Drivers do not see it: `next_item` ends a plan there."""

    value: T


Step: TypeAlias = Call | CallAll | CallAny | Pause | Alone | Fetch | Save | Compute | Await
#: The answer to a step: one command or several, fetched bytes, or nothing.
Brought: TypeAlias = Command | list[Command] | bytes | None
Plan: TypeAlias = Generator[Step, Brought, T]
#: A plan that hands out items on its way.
Items: TypeAlias = Generator[Step | HandOut[T], Brought, None]


class Deadline:
    """One time budget, which all steps of an operation share."""

    __slots__ = ("_clock", "_end", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: int, *, left_s: float | None = None) -> None:
        """Begin now; or have begun before, so that only a part of the time is left."""
        self._clock = clock
        self.timeout_ms = timeout_ms
        self._end = clock.monotonic() + (timeout_ms / 1_000 if left_s is None else left_s)

    @property
    def has_passed(self) -> bool:
        """Whether nothing is left."""
        return self._clock.monotonic() >= self._end

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below zero."""
        return max(0.0, self._end - self._clock.monotonic())

    def part_s(self, timeout_ms: int) -> float:
        """Seconds that a step with a limit of its own may take; raise RequestTimeout when none are left."""
        left_s = self._end - self._clock.monotonic()
        if left_s <= 0:
            raise RequestTimeout(f"the {self.timeout_ms} ms for this call are used up")
        return min(left_s, timeout_ms / 1_000)


def ask(address: str, command: Command, timeout_s: float) -> Plan[Command]:
    """Send a command and return its answer, whatever its code."""
    answer = yield Call(address, command, timeout_s)
    assert isinstance(answer, Command), "a driver brings an answer to every call that is not oneway"
    return answer


def ask_all(address: str, commands: Sequence[Command], timeout_s: float) -> Plan[list[Command]]:
    """Send commands to one address together and return their answers, whatever their codes."""
    answers = yield CallAll(address, commands, timeout_s)
    assert isinstance(answers, list), "a driver brings the answers to calls that are made together"
    return answers


def ask_any(calls: Sequence[Call], timeout_s: float) -> Plan[Command]:
    """Send commands to several addresses and return the first answer that comes, whatever its code."""
    answer = yield CallAny(calls, timeout_s)
    assert isinstance(answer, Command), "a driver brings the first of several answers"
    return answer


def tell(address: str, command: Command, timeout_s: float) -> Plan[None]:
    """Send a command that gets no answer."""
    yield Call(address, command, timeout_s, oneway=True)


def compute(call: Callable[[], T]) -> Plan[T]:
    """Call a function that takes long, and return its result."""
    step = Compute(call)
    yield step
    result: T = step.result
    return result


def awaited(call: Callable[[], Awaitable[T]]) -> Plan[T]:
    """Await something on the loop, and return its result."""
    step = Await(call)
    yield step
    result: T = step.result
    return result


def next_item(items: Items[T]) -> Plan[HandOut[T] | None]:
    """Carry a plan out up to the next item that it hands out; None is the end."""
    try:
        step = next(items)
        while not isinstance(step, HandOut):
            try:
                brought = yield step
            except PyroError as error:
                step = items.throw(error)
            else:
                step = items.send(brought)
    except StopIteration:
        return None
    return step


def fetch(url: str, timeout_s: float) -> Plan[bytes]:
    """Return the bytes at an HTTP address; raise ConnectFailed when it does not answer 200."""
    text = yield Fetch(url, timeout_s)
    assert isinstance(text, bytes), "a driver brings bytes from what it fetches"
    return text


def request(code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
    """Return the command of a request, in this client's name; whoever sends it gives it its opaque."""
    ext = None if header is None else write_header(header)
    return Command(code, ext=ext, body=body, language=Language.PYTHON)


def must_succeed(answer: Command) -> Command:
    """Return the answer if its code is SUCCESS; raise the error for its code if not."""
    if answer.code != ResponseCode.SUCCESS:
        raise refusal(answer.code, answer.remark)
    return answer
