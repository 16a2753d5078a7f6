"""The blocking producer of transactional messages."""

import logging
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyromq.client.aio import transaction_producer as aio
from pyromq.client.hooks import SendHook
from pyromq.client.outgoing import prepare
from pyromq.client.plans import presence, send, transaction
from pyromq.client.plans.send import NEXT_IN_TURN
from pyromq.client.sync.hosted_producer import HostedProducer, hosted_settings
from pyromq.client.sync.producer import Producer
from pyromq.client.transactions import Check, Execute, executed, may_execute, result_of
from pyromq.config.settings import ClientSettings
from pyromq.errors import PyroError
from pyromq.model import Message, TransactionResult, TransactionState

_log = logging.getLogger("pyromq.client")


class TransactionProducer(Producer):
    """Sends messages that consumers see only if a local transaction is committed.

    `execute(message, arg)` carries the local transaction out, on the thread that called
    `send_in_transaction`, and returns its TransactionState; `check(message)` says later, on a thread of this
    producer, perhaps in another process of the group, how it ended. What they raise counts as UNKNOWN: the
    broker asks again.
    """

    # The group's member is the producer on the loop's thread, which can be asked; this one only sends.
    _upkeep = staticmethod(presence.keep_routes_fresh)
    _farewell = staticmethod(presence.leave_silently)

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
        super().__init__(group, name_server, settings, hooks=hooks)
        self._execute = execute
        self._member = HostedProducer(
            f"transactions {group}",
            partial(
                aio.TransactionProducer,
                group,
                name_server,
                hosted_settings(settings),
                execute=execute,
                check=check,
                hooks=hooks,
            ),
        )
        #: By process: the topics whose brokers know the member.
        self._announced: set[tuple[int, str]] = set()

    def start(self) -> None:
        """Begin; a `with` block does it."""
        super().start()
        try:
            self._member.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Wait for asynchronous sends under way, tell the brokers, and close the connections."""
        try:
            self._member.close()
        finally:
            super().close()

    def send_in_transaction(
        self, message: Message, arg: object = None, *, timeout_ms: int | None = None
    ) -> TransactionResult:
        """Store a half message, carry out the local transaction, and tell the broker how it ended.

        Raises what `send` raises when the half message is not stored; nothing is executed then. One that is
        stored but not as safe as asked is rolled back unexecuted.
        """
        session = self._runner.session
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        half = transaction.half_of(session, message)
        outgoing = prepare(half, session.next_message_id(), session.settings)
        self.announce(message.topic)
        sent = self._runner.run(send.send(session, outgoing, NEXT_IN_TURN, send.sync_rule(session), deadline))
        state, error = TransactionState.ROLLBACK, None
        if may_execute(sent):
            state, error = executed(self._execute, half, arg)
        try:
            self._runner.run(transaction.end(session, half, sent, state, error))
        except PyroError as failure:
            _log.warning("the end of the transaction of %s is not told: %s", sent.message_id, failure)
        return result_of(sent, state, error)

    def announce(self, *topics: str) -> None:
        """Tell the brokers of topics that this producer answers their questions for the group's transactions.

        Sending does it by itself. A process that starts anew announces the topics whose transactions the last
        one may have left undecided.
        """
        member = self._hosted()
        news = [topic for topic in topics if (os.getpid(), topic) not in self._announced]
        if news:
            member.run(lambda producer: producer.announce(*news))
            self._announced.update((os.getpid(), topic) for topic in news)

    def _hosted(self) -> "HostedProducer[Any]":
        _ = self._runner.session
        return self._member
