"""The awaitable producer of transactional messages."""

import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from pyromq.client.aio.producer import Producer
from pyromq.client.hooks import SendHook
from pyromq.client.namespaces import wrap
from pyromq.client.plans import presence, send, transaction
from pyromq.client.plans.send import NEXT_IN_TURN
from pyromq.client.session import Session
from pyromq.client.transactions import (
    CHECK_THREADS,
    EXECUTE_THREADS,
    Calls,
    Check,
    Execute,
    asked_about,
    may_execute,
    result_of,
)
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import PyroError
from pyromq.model import Message, ReceivedMessage, TransactionResult, TransactionState
from pyromq.net.routes import Request, Route
from pyromq.wire.headers.transaction import CheckTransactionState

_log = logging.getLogger("pyromq.client")


class TransactionProducer(Producer):
    """Sends messages that consumers see only if a local transaction is committed.

    `execute(message, arg)` carries the local transaction out and returns its TransactionState;
    `check(message)` says later, perhaps in another process of the group, how it ended. Both may be coroutine
    functions; plain functions are called on threads. What they raise counts as UNKNOWN: the broker
    asks again.
    """

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        settings: ClientSettings | None = None,
        *,
        execute: Execute,
        check: Check,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        self._execute = execute
        self._check = check
        self._executions = Calls(EXECUTE_THREADS)
        self._checks = Calls(CHECK_THREADS)
        super().__init__(group, name_server, settings, hooks=hooks)

    async def close(self) -> None:
        """Wait for asynchronous sends under way, tell the brokers, and close the connections."""
        await super().close()
        self._executions.close()
        self._checks.close()

    async def send_in_transaction(
        self, message: Message, arg: object = None, *, timeout_ms: int | None = None
    ) -> TransactionResult:
        """Store a half message, carry out the local transaction, and tell the broker how it ended.

        Raises what `send` raises when the half message is not stored; nothing is executed then. One that is
        stored but not as safe as asked is rolled back unexecuted.
        """
        session, deadline = self._runner.session, self._deadline(timeout_ms)
        half = transaction.half_of(session, message)
        outgoing = await self._prepare(session, half)
        await self._runner.run(presence.greet(session, outgoing.topic, deadline))
        sent = await self._runner.run(
            send.send(session, outgoing, NEXT_IN_TURN, send.sync_rule(session), deadline)
        )
        state, error = TransactionState.ROLLBACK, None
        if may_execute(sent):
            state, error = await self._executions.call(self._execute, half, arg)
        try:
            await self._runner.run(transaction.end(session, half, sent, state, error))
        except PyroError as failure:
            _log.warning("the end of the transaction of %s is not told: %s", sent.message_id, failure)
        return result_of(sent, state, error)

    async def announce(self, *topics: str) -> None:
        """Tell the brokers of topics that this producer answers their questions for the group's transactions.

        Sending does it by itself. A process that starts anew announces the topics whose transactions the last
        one may have left undecided.
        """
        session = self._runner.session
        for topic in topics:
            deadline = session.deadline(None, session.settings.mq_client_api_timeout)
            await self._runner.run(presence.greet(session, wrap(session.settings.namespace, topic), deadline))

    def _answers(self) -> list[Route[Any]]:
        return [
            *super()._answers(),
            Route(RequestCode.CHECK_TRANSACTION_STATE, self._asked, CheckTransactionState),
        ]

    def _asked(self, request: Request[CheckTransactionState]) -> Awaitable[None] | None:
        session = self._runner.session
        message = asked_about(session, request)
        if message is None:
            return None
        if self._checks.is_full:
            _log.warning("too many checks wait; %s will ask again", request.link.peer)
            return None
        return self._answer(session, request, message)

    async def _answer(
        self, session: Session, request: Request[CheckTransactionState], message: ReceivedMessage
    ) -> None:
        state, error = await self._checks.call(self._check, message)
        plan = transaction.answer_check(session, request.link.peer, request.header, message, state, error)
        await self._runner.run(plan)
