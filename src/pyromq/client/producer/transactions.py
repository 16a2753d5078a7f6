"""Local transactions of an application: their execution, and the checks that brokers ask for."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias, TypeVar

from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import received_messages
from pyromq.client.namespaces import unwrap
from pyromq.errors import LocalProtocolError
from pyromq.model import Message, ReceivedMessage, SendResult, SendStatus, TransactionResult, TransactionState
from pyromq.net.routes import Request
from pyromq.wire import properties as names
from pyromq.wire.headers.transaction_headers import CheckTransactionState

T = TypeVar("T")
#: Carries out the local transaction of a message, with what `send_in_transaction` was given for it.
Execute: TypeAlias = Callable[[Message, Any], TransactionState | Awaitable[TransactionState]]
#: Says how the local transaction of a message ended.
Check: TypeAlias = Callable[[ReceivedMessage], TransactionState | Awaitable[TransactionState]]
#: How a local transaction ended, and what it raised.
Outcome: TypeAlias = tuple[TransactionState, BaseException | None]

#: Threads that execute and that check, where the application gave no coroutine functions.
EXECUTE_THREADS: Final = 32
CHECK_THREADS: Final = 4
#: Questions that may wait for their answers, RocketMQ's checkRequestHoldMax; brokers ask again.
CHECKS_HELD_MAX: Final = 2_000

_log = logging.getLogger("pyromq.client")


def result_of(
    sent: SendResult, state: TransactionState, error: BaseException | None = None
) -> TransactionResult:
    """Return what came of a half message and its local transaction."""
    return TransactionResult(
        sent.status,
        sent.message_id,
        sent.offset_message_id,
        sent.queue,
        sent.queue_offset,
        sent.transaction_id,
        state=state,
        error=error,
    )


def may_execute(sent: SendResult) -> bool:
    """Return whether a half message is as safe as asked; if not it is rolled back, and nothing executed."""
    return sent.status is SendStatus.SEND_OK


def known_state(state: object) -> TransactionState:
    """Return what a local transaction returned; raise TypeError when that is no state."""
    if not isinstance(state, TransactionState):
        raise TypeError(
            f"a local transaction returned {state!r}; return TransactionState.COMMIT, ROLLBACK or UNKNOWN"
        )
    return state


def executed(execute: Execute, message: Message, argument: object) -> Outcome:
    """Carry out a local transaction on this thread."""
    try:
        state = execute(message, argument)
        if inspect.iscoroutine(state):
            state.close()
            raise TypeError("the blocking producer executes plain functions; coroutines are for pyromq.aio")
        return known_state(state), None
    except Exception as error:  # noqa: BLE001  the application's code: what it raises leaves the fate open
        return _not_known(message.message_id, error)


def _not_known(message_id: str | None, error: BaseException) -> Outcome:
    _log.warning("the local transaction of message %s is not known, it raised", message_id, exc_info=error)
    return TransactionState.UNKNOWN, error


class Calls:
    """Calls the application's functions from a loop: coroutine functions on it, others on threads."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._threads: ThreadPoolExecutor | None = None
        self._under_way = 0

    @property
    def is_full(self) -> bool:
        """Whether as many calls are under way as may be."""
        return self._under_way >= CHECKS_HELD_MAX

    async def call(
        self, function: Callable[..., Any], message: Message | ReceivedMessage, *arguments: object
    ) -> Outcome:
        """Return the state that a function gives for a message."""
        self._under_way += 1
        try:
            return known_state(await self._called(function, message, *arguments)), None
        except Exception as error:  # noqa: BLE001  the application's code: what it raises leaves the fate open
            return _not_known(message.message_id, error)
        finally:
            self._under_way -= 1

    async def _called(self, function: Callable[..., Any], *arguments: object) -> object:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_max, thread_name_prefix="pyromq-local")
        state = await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        return await state if inspect.isawaitable(state) else state

    def close(self) -> None:
        """Let the threads end; those that still work are not waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)


def asked_about(session: Session, request: Request[CheckTransactionState]) -> ReceivedMessage | None:
    """Return the half message that a broker asks about, or None when it is of another group."""
    messages = received_messages(request.body, request.header.broker_name or "")
    if len(messages) != 1:
        raise LocalProtocolError(f"a check has one message, not {len(messages)}")
    message = messages[0]
    group = message.properties.get(names.PRODUCER_GROUP)
    if group != session.group:
        _log.warning("%s asks for a transaction of group %s, which is not here", request.link.peer, group)
        return None
    message.topic = unwrap(session.settings.namespace, message.topic)
    return message
