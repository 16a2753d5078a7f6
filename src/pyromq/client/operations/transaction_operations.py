"""The methods of the transaction producer."""

import logging

from pyromq.client.namespaces import wrap
from pyromq.client.operations.declaration import HostedOperation, Operation
from pyromq.client.operations.producer_operations import ProducerOperations, prepared
from pyromq.client.plans import presence_plans, send_plans, transaction_plans
from pyromq.client.plans.send_plans import NEXT_IN_TURN
from pyromq.client.producer.transactions import Outcome, may_execute, result_of
from pyromq.client.steps import Deadline, Plan
from pyromq.errors import PyroError
from pyromq.model import Message, TransactionResult, TransactionState

_log = logging.getLogger("pyromq.client")


class TransactionOperations(ProducerOperations):
    """Sending messages that consumers see only if a local transaction is committed."""

    @Operation
    def send_in_transaction(
        self, message: Message, arg: object = None, *, timeout_ms: int | None = None
    ) -> Plan[TransactionResult]:
        """Store a half message, carry out the local transaction, and tell the broker how it ended.

        Raises what `send` raises when the half message is not stored; nothing is executed then. One that is
        stored but not as safe as asked is rolled back unexecuted.
        """
        session, deadline = self._session, self._deadline(timeout_ms)
        half = transaction_plans.half_of(session, message)
        outgoing = yield from prepared(session, half)
        yield from self._become_known(message.topic, deadline)
        sent = yield from send_plans.send(
            session, outgoing, NEXT_IN_TURN, send_plans.sync_rule(session), deadline
        )
        state, error = TransactionState.ROLLBACK, None
        if may_execute(sent):
            state, error = yield from self._executed(half, arg)
        try:
            yield from transaction_plans.end(session, half, sent, state, error)
        except PyroError as failure:
            _log.warning("the end of the transaction of %s is not told: %s", sent.message_id, failure)
        return result_of(sent, state, error)

    @HostedOperation
    def announce(self, *topics: str) -> Plan[None]:
        """Tell the brokers of topics that this producer answers their questions for the group's transactions.

        Sending does it by itself. A process that starts anew announces the topics whose transactions the last
        one may have left undecided.
        """
        session = self._session
        for topic in topics:
            deadline = session.deadline(None, session.settings.mq_client_api_timeout)
            yield from presence_plans.greet(session, wrap(session.settings.namespace, topic), deadline)

    def _become_known(self, topic: str, deadline: Deadline) -> Plan[None]:
        """See to it that the brokers of a topic can ask this producer before they have a half message."""
        raise NotImplementedError

    def _executed(self, half: Message, argument: object) -> Plan[Outcome]:
        """Carry out the local transaction."""
        raise NotImplementedError
