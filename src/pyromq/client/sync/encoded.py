"""The blocking client for messages that are encoded already; Spark's executors use it with any broker.

with EncodedSends("127.0.0.1:9876") as sends:
    queues = sends.queues("orders")
    sends.send_units(queues[0], encode_batch(units))
"""

from functools import partial

from pyromq.client.client_session import new_session
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.operations.declaration import Operation
from pyromq.client.plans import encoded_plans, send_plans
from pyromq.client.steps import Plan
from pyromq.client.sync.blocking_face import BlockingFace
from pyromq.config.settings import ClientSettings
from pyromq.model import MessageQueue, SendResult
from pyromq.wire.batch import BatchUnit

#: How long a send may go on while no broker answers: one may be restarted meanwhile.
TIMEOUT_MS = 30_000


class EncodedSends(BlockingFace):
    """Sends batches and single messages until they are acknowledged; one for a process is enough."""

    def __init__(
        self, group: str, name_server: str | None = None, settings: ClientSettings | None = None
    ) -> None:
        addresses = name_server_addresses(name_server, settings)
        make_session = partial(new_session, group, addresses, settings or ClientSettings())
        self._set_runner(f"encoded sends {group}", make_session)

    @Operation
    def queues(self, topic: str, *, timeout_ms: int | None = None) -> Plan[list[MessageQueue]]:
        """Return the queues that a topic's messages may be sent to, sorted."""
        deadline = self._session.deadline(timeout_ms, TIMEOUT_MS)
        return sorted((yield from send_plans.publish_queues(self._session, topic, deadline)))

    @Operation
    def send_units(
        self, queue: MessageQueue, units: bytes, *, timeout_ms: int | None = None
    ) -> Plan[SendResult]:
        """Send a batch, encoded as `pyromq.wire.batch` does, in one request.

        Raises Refused when the broker does not want it, RequestTimeout or another NetworkError when no broker
        answered for `timeout_ms` (30,000): it may be stored even then, once or more than once.
        """
        deadline = self._session.deadline(timeout_ms, TIMEOUT_MS)
        return encoded_plans.send_units(self._session, queue, units, deadline)

    @Operation
    def send_unit(
        self, queue: MessageQueue, unit: BatchUnit, *, timeout_ms: int | None = None
    ) -> Plan[SendResult]:
        """Send one message by itself, as a scheduled message must be; raises as `send_units` does."""
        deadline = self._session.deadline(timeout_ms, TIMEOUT_MS)
        return encoded_plans.send_unit(self._session, queue, unit, deadline)
