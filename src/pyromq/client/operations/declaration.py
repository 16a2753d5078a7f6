"""Client methods that are declared once, and that each face carries out in its own way.

A method is declared in a class of this folder, under one of the decorators below. Its body returns a plan. A
face is a class that inherits the declarations and `BlockingMethods` or `AwaitableMethods`, which replace each
declaration by a function when the class is made. So a call costs what a hand-written method would cost, and
`help()` and `inspect` show the method with its parameters and its result.

    decorator                  the body returns    pyromq                       pyromq.aio
    Operation                  Plan[T]             T, on the caller's thread    a coroutine of T
    IteratingOperation         Items[T]            an iterator                  an asynchronous iterator
    BackgroundOperation        BackgroundCall[T]   a Future, on a thread        a Task
    HostedOperation            Plan[T]             T, from the hosted client    a coroutine of T
    HostedBackgroundOperation  BackgroundCall[T]   a Future, from the hosted    a Task
    EngineCall                 OnEngine[E, T]      T, from the engine's loop    T
    EngineOperation            OnEngine[E, …]      T, from the engine's loop    a coroutine of T

The hosted client is the awaitable client of the same name, on a thread with a loop: it alone can take what
brokers send by themselves. The engine of a consumer is the same for both faces; in a blocking
face it is hosted too, by a `HostedEngine`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from types import FunctionType, GenericAlias
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

import msgspec

from pyromq.client.background_work import Upkeep
from pyromq.client.client_session import Session
from pyromq.client.steps import Deadline, HandOut, Items, Plan, next_item

if TYPE_CHECKING:
    from pyromq.client.aio import runner as aio
    from pyromq.client.sync import runner as sync

P = ParamSpec("P")
T = TypeVar("T")
#: The results of a method in a blocking and in an awaitable face.
B = TypeVar("B")
A = TypeVar("A")
#: The engine of a consumer.
E = TypeVar("E")
Body: TypeAlias = Callable[..., Any]
Method: TypeAlias = Callable[..., Any]
#: Takes the result of a call in the background, or the error that ended it.
Callback: TypeAlias = Callable[[T | None, BaseException | None], None]


class ClientOperations:
    """The base of all declarations: the parts of a face that plans need."""

    _runner: "sync.Runner | aio.Runner"

    @property
    def _session(self) -> Session:
        return self._runner.session

    def _set_runner(
        self, name: str, new_session: Callable[[], Session], upkeep: Upkeep | None = None
    ) -> None:
        """Make the runner; each face has its own kind."""
        raise NotImplementedError


#: A body that works on the engine of a consumer.
OnEngine: TypeAlias = Callable[[E], T]


class BackgroundCall(msgspec.Struct, Generic[T], frozen=True):
    """A call that nobody waits for.

    `make` returns its plan. The blocking face calls it at once, so that it raises there; the awaitable face
    calls it in the task. `wait` is the time that a thread may wait when too many calls are in flight.
    """

    make: Callable[[], Plan[T]]
    callback: Callback[T] | None = None
    wait: Deadline | None = None


def _run(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return self._runner.run(body(self, *arguments, **words))

    return call


def _run_on_loop(body: Body) -> Method:
    async def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return await self._runner.run(body(self, *arguments, **words))

    return call


def _run_hosted(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return self._hosted().run(
            lambda client: client._begin(BackgroundCall(partial(body, client, *arguments, **words)))
        )

    return call


def _iterate(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return _iterated(self._runner, body(self, *arguments, **words))

    return call


def _iterate_on_loop(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return _aiterated(self._runner, body(self, *arguments, **words))

    return call


def _begin(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return self._begin(body(self, *arguments, **words))

    return call


def _begin_hosted(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return self._hosted().submit(lambda client: body(client, *arguments, **words))

    return call


def _call_hosted(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return self._engine.call(body(self, *arguments, **words))

    return call


def _call_engine(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return body(self, *arguments, **words)(self._engine)

    return call


def _run_on_hosted(body: Body) -> Method:
    def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return self._engine.run(body(self, *arguments, **words))

    return call


def _run_on_engine(body: Body) -> Method:
    async def call(self: Any, *arguments: Any, **words: Any) -> Any:
        return await body(self, *arguments, **words)(self._engine)

    return call


class Declared(Generic[P, B, A]):
    """A method that is declared once; in a blocking face it returns B, in an awaitable face A."""

    #: Make the method of a blocking and of an awaitable face from a body.
    makers: tuple[Callable[[Body], Method], Callable[[Body], Method]]
    #: The types of the two results, around the type of what the plan returns or hands out.
    results: tuple[type, type] | None = None

    def __init__(self, body: Body) -> None:
        self.body = body

    if TYPE_CHECKING:

        @overload
        def __get__(self, face: None, owner: object = None) -> Self: ...
        @overload
        def __get__(self, face: "BlockingMethods", owner: object = None) -> Callable[P, B]: ...
        @overload
        def __get__(self, face: "AwaitableMethods", owner: object = None) -> Callable[P, A]: ...
        def __get__(self, face: object, owner: object = None) -> Any: ...


class Operation(Declared[P, T, Coroutine[Any, Any, T]]):
    """A method whose plan is carried out while the caller waits."""

    makers = _run, _run_on_loop

    if TYPE_CHECKING:

        def __init__(self, body: Callable[Concatenate[Any, P], Plan[T]]) -> None: ...


class HostedOperation(Operation[P, T]):
    """A method that must be carried out on a loop, because brokers answer it by requests of their own."""

    makers = _run_hosted, _run_on_loop


class IteratingOperation(Declared[P, Iterator[T], AsyncIterator[T]]):
    """A method that returns an iterator; its plan goes on when the next item is asked for."""

    makers = _iterate, _iterate_on_loop
    results = Iterator, AsyncIterator

    if TYPE_CHECKING:

        def __init__(self, body: Callable[Concatenate[Any, P], Items[T]]) -> None: ...


class BackgroundOperation(Declared[P, Future[T], asyncio.Task[T]]):
    """A method that returns before its plan is carried out."""

    makers = _begin, _begin
    results = Future, asyncio.Task

    if TYPE_CHECKING:

        def __init__(self, body: Callable[Concatenate[Any, P], BackgroundCall[T]]) -> None: ...


class HostedBackgroundOperation(BackgroundOperation[P, T]):
    """A method that returns at once and must be carried out on a loop."""

    makers = _begin_hosted, _begin


class EngineCall(Declared[P, T, T]):
    """A method of a consumer's engine that does not wait."""

    makers = _call_hosted, _call_engine

    if TYPE_CHECKING:

        def __init__(self, body: Callable[Concatenate[Any, P], OnEngine[Any, T]]) -> None: ...


class EngineOperation(Declared[P, T, Coroutine[Any, Any, T]]):
    """A method of a consumer's engine that waits for something."""

    makers = _run_on_hosted, _run_on_engine

    if TYPE_CHECKING:

        def __init__(
            self, body: Callable[Concatenate[Any, P], OnEngine[Any, Coroutine[Any, Any, T]]]
        ) -> None: ...


class BlockingMethods:
    """A class whose declared methods block; `_runner` carries their plans out."""

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        _adopt_all(cls, 0)


class AwaitableMethods:
    """A class whose declared methods are coroutine functions; `_runner` carries their plans out."""

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        _adopt_all(cls, 1)


def _adopt_all(face: type, which: int) -> None:
    """Replace the declarations that a face inherits by methods: blocking (0) or awaitable (1)."""
    members: dict[str, object] = {}
    for kind in reversed(face.__mro__):
        members |= vars(kind)
    for name, declared in members.items():
        if isinstance(declared, Declared):
            result = _result_type(declared.body)
            if declared.results is not None:
                result = GenericAlias(declared.results[which], result)
            _adopt(face, name, declared.makers[which](declared.body), declared.body, result)


def _adopt(face: type, name: str, method: Method, body: Body, result: Any) -> None:
    """Make a function a method of a face; `inspect` finds the declared parameters by way of `__wrapped__`."""
    assert isinstance(body, FunctionType)
    shown = FunctionType(body.__code__, body.__globals__, name, body.__defaults__, body.__closure__)
    shown.__kwdefaults__ = body.__kwdefaults__
    shown.__annotations__ = body.__annotations__ | {"return": result}
    method.__name__, method.__qualname__ = name, f"{face.__qualname__}.{name}"
    method.__module__, method.__doc__ = face.__module__, body.__doc__
    method.__annotations__ = shown.__annotations__
    vars(method)["__wrapped__"] = shown
    setattr(face, name, method)


def _result_type(body: Body) -> Any:
    """Return T of a body that returns a Plan[T], Items[T], BackgroundCall[T] or OnEngine[E, T]."""
    arguments = get_args(body.__annotations__["return"])
    if isinstance(arguments[0], list):
        result = arguments[1]
        return get_args(result)[2] if get_origin(result) is Coroutine else result
    if len(arguments) == 1:
        return arguments[0]
    steps, _, result = arguments
    items = [get_args(step)[0] for step in get_args(steps) if get_origin(step) is HandOut]
    if items:
        return items[0]
    return None if result is type(None) else result


def _iterated(runner: "sync.Runner", items: Items[T]) -> Iterator[T]:
    try:
        while (item := runner.run(next_item(items))) is not None:
            yield item.value
    finally:
        items.close()


async def _aiterated(runner: "aio.Runner", items: Items[T]) -> AsyncIterator[T]:
    try:
        while (item := await runner.run(next_item(items))) is not None:
            yield item.value
    finally:
        items.close()
