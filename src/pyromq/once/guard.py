"""A guard that lets the work of a message be done once, however often the message comes."""

import functools
import inspect
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

from pyromq.client.drivers import LocalLoopRunner, LocalRunner
from pyromq.client.push.consume_outcome import as_result
from pyromq.client.push.delivery import ConsumeResult
from pyromq.client.steps import Plan, awaited, compute
from pyromq.errors import BeingProcessed, ConfigError, NoBusinessKey
from pyromq.model import ReceivedMessage
from pyromq.once.db_tokens import DbTokens
from pyromq.once.tokens import Began, Tokens

#: Returns the key of a message's business. Not its id: the same order sent twice has two ids.
KeyOf: TypeAlias = Callable[[ReceivedMessage], str]

L = TypeVar("L", bound=Callable[..., object])

_HERE: Final = LocalRunner()
_ON_LOOP: Final = LocalLoopRunner()


class Once:
    """Guards a listener against duplicates: of sending, of consuming, of a rebalance.

        @once(tokens, key=lambda message: message.keys[0])
        def handle(message): ...

    A message whose business is done succeeds without a call. One that another works at comes again later.
    A listener that fails (an exception, False, RECONSUME_LATER) gives the token back. Between the listener's
    end and the token's there is a gap: who dies there does the work again. To close it, let `guard` record
    the key in the transaction of the work itself.
    """

    def __init__(self, tokens: Tokens, *, key: KeyOf) -> None:
        self._tokens = tokens
        self._key_of = key

    def __call__(self, listener: L) -> L:
        """Return the listener, guarded; it may be a coroutine function, and may take a delivery."""
        if inspect.iscoroutinefunction(listener):

            @functools.wraps(listener)
            async def aguarded(message: ReceivedMessage, *rest: Any) -> object:
                listen = partial(awaited, partial(listener, message, *rest))
                return await _ON_LOOP.run(self._guarded(message, listen))

            return cast("L", aguarded)

        @functools.wraps(listener)
        def guarded(message: ReceivedMessage, *rest: Any) -> object:
            listen = partial(compute, partial(listener, message, *rest))
            return _HERE.run(self._guarded(message, listen))

        return cast("L", guarded)

    @contextmanager
    def guard(self, message: ReceivedMessage, connection: object | None = None) -> Iterator[bool]:
        """Yield whether the work of a message is to be done now; raise BeingProcessed if another is at it.

        With a `connection` the key is recorded in its transaction, which the caller commits with the work:
        either both are there or neither. Without one, the token is done when the block ends, and given back
        when it raises.
        """
        key, owner = self._key(message), secrets.token_hex(16)
        if connection is not None:
            yield self._recording().record(connection, key, owner)
            return
        began = self._tokens.begin(key, owner)
        if began is Began.BUSY:
            raise BeingProcessed(f"the work of key {key!r} is under way elsewhere; it is tried again later")
        if began is Began.DONE:
            yield False
            return
        try:
            yield True
        except BaseException:
            self._tokens.forget(key, owner)
            raise
        self._tokens.finish(key, owner)

    def _guarded(self, message: ReceivedMessage, listen: Callable[[], Plan[object]]) -> Plan[object]:
        """Call a listener if its work is to be done now; on a loop, the tokens are asked on a thread."""
        key, owner = self._key(message), secrets.token_hex(16)
        began = yield from compute(partial(self._tokens.begin, key, owner))
        if began is not Began.MINE:
            return _without_a_call(began)
        try:
            answer = yield from listen()
            is_done = _is_done(answer)
        except BaseException:
            yield from compute(partial(self._tokens.forget, key, owner))
            raise
        end = self._tokens.finish if is_done else self._tokens.forget
        yield from compute(partial(end, key, owner))
        return answer

    def _key(self, message: ReceivedMessage) -> str:
        try:
            key = self._key_of(message)
        except LookupError as error:
            raise _no_key(message) from error
        if not key:
            raise _no_key(message)
        return key

    def _recording(self) -> DbTokens:
        if not isinstance(self._tokens, DbTokens):
            raise ConfigError(
                f"{type(self._tokens).__name__} cannot record in a transaction of the application's "
                "database: give Once a DbTokens or SqliteTokens"
            )
        return self._tokens


def once(tokens: Tokens, *, key: KeyOf) -> Once:
    """Return a guard for a listener; for use as a decorator."""
    return Once(tokens, key=key)


def _without_a_call(began: Began) -> ConsumeResult:
    return ConsumeResult.SUCCESS if began is Began.DONE else ConsumeResult.RECONSUME_LATER


def _is_done(answer: object) -> bool:
    return as_result(answer) not in (ConsumeResult.RECONSUME_LATER, ConsumeResult.ROLLBACK)


def _no_key(message: ReceivedMessage) -> NoBusinessKey:
    return NoBusinessKey(
        f"message {message.message_id} of topic {message.topic!r} has no business key: send it with one "
        "(Message(…, keys=[…])), or take the key from its body"
    )
