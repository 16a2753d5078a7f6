"""The blocking relay: sends the messages of the outbox, on a thread of yours."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from pyromq.client.drivers import LocalRunner
from pyromq.client.operations.declaration import BlockingMethods
from pyromq.client.steps import Plan, compute
from pyromq.errors import MessageIllegal, PyroError
from pyromq.model import SendResult
from pyromq.outbox.outbox_table import Claimed
from pyromq.outbox.relay_operations import Ask, RelayOperations
from pyromq.outbox.rounds import RelayRound


class Relay(RelayOperations[SendResult], BlockingMethods):
    """Sends the outbox's messages, each until it is sent. Any number of relays may run, anywhere.

        relay = Relay(lambda: psycopg.connect(…), producer)
        threading.Thread(target=relay.run).start()
        …
        relay.stop()

    A message is sent at least once: a relay that dies after a send and before its commit sends it again,
    under the same id. A message that fails waits longer each time, and never keeps others waiting, unless
    they are behind it in its group.
    """

    _runner = LocalRunner()
    _woken: threading.Event
    _new_event = threading.Event

    def _waker(self) -> Callable[[], None]:
        return self._woken.set

    def _database(self) -> AbstractContextManager[Ask]:
        return nullcontext(compute)

    def _pause(self, ms: int) -> Plan[None]:
        return compute(partial(self._wait, ms / 1_000))

    def _wait(self, seconds: float) -> None:
        if not self._is_stopped:
            self._woken.wait(seconds)
            self._woken.clear()

    def _deliver(self, ask: Ask, work: RelayRound, rows: Sequence[Claimed]) -> Plan[None]:
        return ask(partial(self._send_in_turn, work, rows))

    def _send_in_turn(self, work: RelayRound, rows: Sequence[Claimed]) -> None:
        # A topic that cannot be reached would cost a time-out for each of its messages.
        away_until_ms: dict[str, int] = {}
        for row in rows:
            if self._is_stopped or not work.is_ours(row):
                work.put_back(row, self._clock.now_ms())
            elif row.topic in away_until_ms:
                work.put_back(row, away_until_ms[row.topic])
            else:
                self._send_one(work, row, away_until_ms)

    def _send_one(self, work: RelayRound, row: Claimed, away_until_ms: dict[str, int]) -> None:
        try:
            self._send(row)
        except (MessageIllegal, ValueError) as error:
            work.failed(row, error)
        except PyroError as error:
            away_until_ms[row.topic] = work.failed(row, error)
        else:
            work.sent(row)
