"""The awaitable producer of transactional messages."""

import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from pyromq.client.aio.producer import Producer
from pyromq.client.client_session import Session
from pyromq.client.hooks import SendHook
from pyromq.client.namespaces import wrap
from pyromq.client.operations.transaction_operations import TransactionOperations
from pyromq.client.plans import presence_plans, transaction_plans
from pyromq.client.producer.transactions import (
    CHECK_THREADS,
    EXECUTE_THREADS,
    Calls,
    Check,
    Execute,
    Outcome,
    asked_about,
)
from pyromq.client.steps import Deadline, Plan, awaited
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.model import Message, ReceivedMessage
from pyromq.net.routes import Request, Route
from pyromq.wire.headers.transaction_headers import CheckTransactionState

_log = logging.getLogger("pyromq.client")


class TransactionProducer(TransactionOperations, Producer):
    """Sends messages that consumers see only if a local transaction is committed.

    `execute(message, arg)` carries the local transaction out and returns its TransactionState;
    `check(message)` says later, perhaps in another process of the group, how it ended. Both may be coroutine
    functions; plain functions are called on threads. An exception in either counts as UNKNOWN: the broker
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
        """Wait for asynchronous sends in flight, tell the brokers, and close the connections."""
        await super().close()
        self._executions.close()
        self._checks.close()

    def _become_known(self, topic: str, deadline: Deadline) -> Plan[None]:
        session = self._session
        return presence_plans.greet(session, wrap(session.settings.namespace, topic), deadline)

    def _executed(self, half: Message, argument: object) -> Plan[Outcome]:
        return awaited(partial(self._executions.call, self._execute, half, argument))

    def _answers(self) -> Sequence[Route[Any]]:
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
        plan = transaction_plans.answer_check(
            session, request.link.peer, request.header, message, state, error
        )
        await self._runner.run(plan)
