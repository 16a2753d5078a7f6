"""The steps that a broker runs at the end of each turn of the loop: the one list, in its order.

During the turn links read, requests are handled, and the log is written and applied. Then `net/turn.py` runs
the steps below that are due, and the links write their answers:

    copy         a slave reads on from its master, if that sent as much as one turn may have
    sync         the writes of this turn wait together; a sync of the log begins
    replicate    slaves are sent what the log has and they do not
    wake         held pulls that want what came are run again
    journal      held pops are run again; one record says what was popped and acknowledged in this turn
    relent       sends are taken again, a turn after a slow write
    (answers)    the lease is looked at once more, then every link writes once

`sync` and `replicate` come before `wake`, so that disk and slaves work while pulls are read. `journal` comes
behind it, for a message that wakes pulls wakes pops too, and what they got is in the record. Whatever else a
broker does once a turn for all links is a step here, in its place.
"""

from collections.abc import Callable

from pyromq.net.turn import Turn


class BrokerTurn(Turn):
    """A broker's turns, with their steps. Whoever carries a step out sets its `run`."""

    __slots__ = ("copy", "journal", "relent", "replicate", "sync", "wake")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__(monotonic=monotonic)
        # In the order in which they run.
        self.copy = self.step()
        self.sync = self.step()
        self.replicate = self.step()
        self.wake = self.step()
        self.journal = self.step()
        # What a pop or an acknowledgement was answered is in the log first.
        self.journal.withholds = True
        self.relent = self.step()
