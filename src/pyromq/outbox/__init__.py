"""The outbox: a message is sent if, and only if, the transaction that it tells of is committed.

`Outbox.add` writes the message in the application's own transaction, on any connection of PEP 249 or of
SQLAlchemy; a `Relay` sends what is written. `pyromq.outbox.aio` has the relay, awaitable.
"""

from pyromq.outbox.adding import Outbox
from pyromq.outbox.outbox_table import WaitingMessage
from pyromq.outbox.relay import Relay
from pyromq.outbox.rounds import RelaySettings, RoundReport

__all__ = ["Outbox", "Relay", "RelaySettings", "RoundReport", "WaitingMessage"]
