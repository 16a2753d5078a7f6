"""The blocking client for messages that are encoded already: what Spark's executors use with any broker.

with EncodedSends("127.0.0.1:9876") as sends:
    queues = sends.queues("orders")
    sends.send_units(queues[0], encode_batch(units))
"""

from functools import partial
from types import TracebackType
from typing import Self

from pyromq.client.name_servers import name_server_addresses
from pyromq.client.plans import encoded, send
from pyromq.client.session import new_session
from pyromq.client.sync.runner import Runner
from pyromq.config.settings import ClientSettings
from pyromq.model import MessageQueue, SendResult
from pyromq.wire.batch import BatchUnit

#: How long a send may take that brokers do not answer: one may be restarted meanwhile.
TIMEOUT_MS = 30_000


class EncodedSends:
    """Sends batches and single messages until they are acknowledged; one for a process is enough."""

    def __init__(
        self, group: str, name_server: str | None = None, settings: ClientSettings | None = None
    ) -> None:
        addresses = name_server_addresses(name_server, settings)
        self._runner = Runner(
            f"encoded sends {group}", partial(new_session, group, addresses, settings or ClientSettings())
        )

    def start(self) -> None:
        """Begin; a `with` block does it."""
        self._runner.start()

    def close(self) -> None:
        """Close the connections."""
        self._runner.close()

    def queues(self, topic: str, *, timeout_ms: int | None = None) -> list[MessageQueue]:
        """Return the queues that a topic's messages may be sent to, sorted."""
        session = self._runner.session
        deadline = session.deadline(timeout_ms, TIMEOUT_MS)
        return sorted(self._runner.run(send.publish_queues(session, topic, deadline)))

    def send_units(self, queue: MessageQueue, units: bytes, *, timeout_ms: int | None = None) -> SendResult:
        """Send a batch, encoded as `pyromq.wire.batch` does, in one request.

        Raises Refused when the broker does not want it, RequestTimeout or another NetworkError when no broker
        answered for `timeout_ms` (30,000): it may be stored even then, once or more than once.
        """
        session = self._runner.session
        deadline = session.deadline(timeout_ms, TIMEOUT_MS)
        return self._runner.run(encoded.send_units(session, queue, units, deadline))

    def send_unit(self, queue: MessageQueue, unit: BatchUnit, *, timeout_ms: int | None = None) -> SendResult:
        """Send one message by itself, as one must be that is delivered later; raises as `send_units` does."""
        session = self._runner.session
        deadline = session.deadline(timeout_ms, TIMEOUT_MS)
        return self._runner.run(encoded.send_unit(session, queue, unit, deadline))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
