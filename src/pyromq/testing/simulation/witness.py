"""A witness that only a simulation has: it sees acknowledgements as they leave, and who held the lease then.

A client learns of an acknowledgement late, when bytes were held back on the way. Here it is seen when the
broker writes it, beside what etcd itself holds at that moment.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from pyromq.testing.simulation.simulated_loop import TURN_S
from pyromq.testing.simulation.transport import Endpoint
from pyromq.torture.checker import PromiseVerdict
from pyromq.torture.history import History

#: In every answer to a send, and in no other.
_MARK: Final = b'"msgId"'
#: A process that was stopped between its look at the lease and its write finds that out too late; what it had
#: looked at then is written in its first turns.
_STOPPED_S: Final = 3 * TURN_S
PROMISE: Final = "only the master that holds the lease acknowledges"


class Witness:
    """Watches the answers of brokers that elect their master."""

    def __init__(self, history: History, port: int) -> None:
        self._history = history
        self._port = port
        #: Whom etcd holds for the master.
        self.leader: str | None = None
        self.checked = 0
        self.broken: list[str] = []

    def wrote(self, endpoint: Endpoint, data: bytes) -> None:
        """Look at bytes that a broker sends."""
        if endpoint.local[1] != self._port or _MARK not in data:
            return
        address = f"{endpoint.local[0]}:{self._port}"
        for header in _headers(data):
            fields = header.get("extFields") or {}
            if "msgId" not in fields or header.get("code") != 0:
                continue
            self.checked += 1
            is_late = endpoint.network.loop.time() - endpoint.process.resumed_at < _STOPPED_S
            if address != self.leader and not is_late:
                self._tell(address, fields)

    def _tell(self, address: str, fields: dict[str, str]) -> None:
        now_s = self._history.note(
            "unleased_ack", address, leader=self.leader, offset=fields.get("queueOffset"), id=fields["msgId"]
        ).at_s
        self.broken.append(
            f"{address} acknowledged queue offset {fields.get('queueOffset')} at {now_s:.3f} s, "
            f"when etcd held {self.leader or 'nobody'} for the master"
        )

    def verdict(self) -> PromiseVerdict:
        """Return what was seen."""
        return PromiseVerdict(PROMISE, self.checked, self.broken)


def _headers(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the headers of the frames that some bytes begin with; brokers write whole frames."""
    at = 0
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4]
        header_size = int.from_bytes(data[at + 5 : at + 8], "big")
        if kind == 0:
            yield json.loads(data[at + 8 : at + 8 + header_size])
        at += 4 + size
