"""Appending of the bytes that a master sends to the log of its slave.

Pieces must follow each other and the log that is there. All that arrived in one read is appended at once.
With failover the epochs are compared before anything is taken, and each piece says of which epoch it is; a
new one is written down before its first byte.
"""

from collections.abc import Callable
from sys import maxsize

from pyromq.broker.replication.divergence import MENDING, Diverged
from pyromq.errors import RemoteProtocolError
from pyromq.store.epochs import Epoch, Epochs
from pyromq.store.store import MessageStore
from pyromq.wire.replication import ReplicatedPiece, Welcome, read_epoch_piece, read_piece


class Copying:
    """Puts what a master sends into the log. With `epochs` it reads the protocol of failover.

    `epoch` is the master's at least: an older one is a master no more. `on_confirmed` is told up to where the
    master says that enough replicas have the log; from then on it may be read so far.
    """

    def __init__(
        self,
        store: MessageStore,
        epochs: Epochs | None = None,
        *,
        epoch: int = 0,
        on_confirmed: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._epochs = epochs
        self._epoch = epoch
        self._on_confirmed = on_confirmed
        self._read = read_piece if epochs is None else read_epoch_piece
        #: Up to where the master's log is known to go.
        self.known_end = 0

    @property
    def has_no_epochs(self) -> bool:
        """Whether there is a log that was written before there were epochs, as with static roles."""
        return self._epochs is not None and not self._epochs.entries and self._store.max_position > 0

    def compare(self, welcome: Welcome, *, is_known_to_fit: bool = False) -> None:
        """Compare the epochs; raise Diverged when this log is not the beginning of the master's.

        `is_known_to_fit`: something else has told that it is; if it has no epochs, the master's are its own.
        """
        epochs, own_end = self._epochs, self._store.max_position
        assert epochs is not None
        newest = max(self._epoch, epochs.last.epoch if epochs.last is not None else 0)
        if welcome.epoch < newest:
            raise RemoteProtocolError(
                f"it is master of epoch {welcome.epoch}, and epoch {newest} has begun: it is followed no more"
            )
        self.known_end = welcome.end
        # An epoch was written down before its first byte, which may not have come.
        epochs.cut(own_end)
        if own_end == 0:
            return
        if is_known_to_fit and not epochs.entries:
            for epoch, start in welcome.epochs:
                if start < own_end:
                    epochs.append(epoch, start)
        common_end = epochs.common_end([Epoch(*entry) for entry in welcome.epochs], welcome.end, own_end)
        if common_end is None:
            raise Diverged(
                f"this slave's log up to {own_end} and the master's have no epoch in common, and nothing is "
                f"copied. {MENDING}",
                shares_no_epoch=bool(epochs.entries),
            )
        if common_end < own_end:
            raise Diverged(
                f"this slave's log goes up to {own_end}, and is the same as the master's up to {common_end} "
                f"only: what stands behind that was never confirmed, and is cut off",
                common_end,
            )

    def take(self, view: memoryview, bytes_max: int = maxsize) -> int:
        """Append whole pieces that bytes begin with, and return how many bytes that were.

        After `bytes_max` no further piece is looked at. Raises RemoteProtocolError, Diverged, or a
        StoreError; what came before the piece in question is appended.
        """
        at, end = 0, self._store.max_position
        bodies: list[memoryview] = []
        try:
            while at < bytes_max and (found := self._read(view[at:])) is not None:
                piece, length = found
                if piece.start != end:
                    if end:
                        raise _unfitting(piece, end)
                    if piece.body:
                        # A new slave: its log begins where the master lets it.
                        self._store.begin_at(piece.start)
                        end = piece.start
                if self._epochs is not None and self._is_of_new_epoch(piece):
                    self._append(bodies)
                    self._epochs.append(piece.epoch, piece.epoch_start)
                if piece.body:
                    bodies.append(piece.body)
                    end += len(piece.body)
                at += length
        finally:
            self._append(bodies)
        if at and self._epochs is not None:
            self._confirm(piece.confirmed)
        self.known_end = max(self.known_end, end)
        return at

    def _append(self, bodies: list[memoryview]) -> None:
        if bodies:
            parts = tuple(bodies)
            bodies.clear()
            self._store.append_copied(*parts)

    def _is_of_new_epoch(self, piece: ReplicatedPiece) -> bool:
        assert self._epochs is not None
        last = self._epochs.last
        if last is None or piece.epoch > last.epoch:
            # What stands before the master's first epoch belongs to none.
            return piece.start >= piece.epoch_start
        if piece.epoch < last.epoch or piece.epoch_start != last.start:
            raise RemoteProtocolError(
                f"a piece of epoch {piece.epoch} from {piece.epoch_start} on, and the log is of epoch "
                f"{last.epoch} from {last.start} on"
            )
        return False

    def _confirm(self, confirmed: int) -> None:
        readable = self._store.readable_position
        if readable is None or confirmed > readable:
            self._store.readable_position = confirmed
            if self._on_confirmed is not None:
                self._on_confirmed(confirmed)
        self.known_end = max(self.known_end, confirmed)


def _unfitting(piece: ReplicatedPiece, end: int) -> Diverged:
    if piece.start > end:
        return Diverged(
            f"this slave has the log up to {end}, and the master's goes on at {piece.start}: what is between "
            f"is gone there. Stop this slave, remove its store folder, and start it again for a new copy"
        )
    return Diverged(
        f"this slave has the log up to {end}, and the master's ends or goes on at {piece.start}: this slave "
        f"has what the master has not, and nothing is copied. {MENDING}"
    )
