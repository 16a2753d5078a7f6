"""Doing the work of a message once, however often the message comes."""

import asyncio
import functools
import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar, cast

from pyromq.client.push.delivery import ConsumeResult
from pyromq.client.push.outcome import as_result
from pyromq.errors import BeingProcessed, ConfigError, NoBusinessKey
from pyromq.model import ReceivedMessage
from pyromq.once.db_tokens import DbTokens
from pyromq.once.tokens import Began, Tokens

#: Says which business a message is about. Not its id: the same order sent twice has two ids.
KeyOf: TypeAlias = Callable[[ReceivedMessage], str]

L = TypeVar("L", bound=Callable[..., object])


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
            return cast("L", self._guarded_coroutine(listener))
        return cast("L", self._guarded(listener))

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

    def _guarded(self, listener: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(listener)
        def guarded(message: ReceivedMessage, *rest: Any) -> object:
            key, owner = self._key(message), secrets.token_hex(16)
            began = self._tokens.begin(key, owner)
            if began is not Began.MINE:
                return _without_a_call(began)
            try:
                answer = listener(message, *rest)
                is_done = _is_done(answer)
            except BaseException:
                self._tokens.forget(key, owner)
                raise
            (self._tokens.finish if is_done else self._tokens.forget)(key, owner)
            return answer

        return guarded

    def _guarded_coroutine(self, listener: Callable[..., Awaitable[object]]) -> Callable[..., object]:
        @functools.wraps(listener)
        async def guarded(message: ReceivedMessage, *rest: Any) -> object:
            # Databases' clients block, so they are asked on a thread.
            key, owner = self._key(message), secrets.token_hex(16)
            began = await asyncio.to_thread(self._tokens.begin, key, owner)
            if began is not Began.MINE:
                return _without_a_call(began)
            try:
                answer = await listener(message, *rest)
                is_done = _is_done(answer)
            except BaseException:
                await asyncio.to_thread(self._tokens.forget, key, owner)
                raise
            await asyncio.to_thread(self._tokens.finish if is_done else self._tokens.forget, key, owner)
            return answer

        return guarded

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
    """Return what guards a listener; for use as a decorator."""
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
