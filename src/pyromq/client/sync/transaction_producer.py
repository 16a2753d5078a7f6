"""The blocking producer of transactional messages."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyromq.client.aio import transaction_producer as aio
from pyromq.client.hooks import SendHook
from pyromq.client.operations.transaction_operations import TransactionOperations
from pyromq.client.plans import presence_plans
from pyromq.client.producer.transactions import Check, Execute, Outcome, executed
from pyromq.client.steps import Deadline, Plan, compute
from pyromq.client.sync.hosted_client import HostedClient, hosted_settings
from pyromq.client.sync.producer import Producer
from pyromq.config.settings import ClientSettings
from pyromq.model import Message


class TransactionProducer(TransactionOperations, Producer):
    """Sends messages that consumers see only if a local transaction is committed.

    `execute(message, arg)` carries the local transaction out, on the thread that called
    `send_in_transaction`, and returns its TransactionState; `check(message)` says later, on a thread of this
    producer, perhaps in another process of the group, how it ended. An exception in either counts as UNKNOWN:
    the broker asks again.
    """

    # The group's member is the hosted producer, which brokers can ask; this one only sends.
    _upkeep = staticmethod(presence_plans.keep_routes_fresh)
    _farewell = staticmethod(presence_plans.leave_silently)

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
        self._member = HostedClient(
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
        """Wait for asynchronous sends in flight, tell the brokers, and close the connections."""
        try:
            self._member.close()
        finally:
            super().close()

    def _become_known(self, topic: str, deadline: Deadline) -> Plan[None]:
        if (os.getpid(), topic) not in self._announced:
            yield from compute(partial(self.announce, topic))
            self._announced.add((os.getpid(), topic))

    def _executed(self, half: Message, argument: object) -> Plan[Outcome]:
        return compute(partial(executed, self._execute, half, argument))

    def _hosted(self) -> "HostedClient[Any]":
        _ = self._runner.session
        return self._member
