"""The two protocols between master and slave, where they differ; the link has the rest.

Plain         4.9, static roles: the slave tells its position, the master sends pieces of the log
WithEpochs    5.x, failover: a handshake first, and each piece says of which epoch it is and up to where
              the log is confirmed
"""

from bisect import bisect_right
from typing import Protocol

from pyromq.errors import LocalProtocolError
from pyromq.store.epochs import Epoch, Epochs
from pyromq.store.store import MessageStore
from pyromq.wire.replication import (
    Hello,
    PositionReader,
    ReportReader,
    encode_epoch_piece_head,
    encode_piece_head,
    encode_welcome,
)


class ReplicationDialect(Protocol):
    """One connection's side of a protocol, at the master."""

    #: Whether the slave is told at once where it stands, and soon when more is confirmed.
    tells_news: bool

    @property
    def hello(self) -> Hello | None:
        """The slave's hello; None until it came. With static roles it has no id."""
        ...

    def hear(self, data: bytes) -> list[int]:
        """Return the positions that the slave has told with these bytes."""
        ...

    def greet(self) -> bytes:
        """Return what the master says when it has heard the slave's hello."""
        ...

    def first_position(self) -> int:
        """Return where the copy of a slave without a log begins."""
        ...

    def piece_end(self, start: int) -> int | None:
        """Return before which position a piece that begins at `start` must end; None: none matters."""
        ...

    def head(self, start: int, size: int) -> bytes:
        """Return what stands before a piece of the log."""
        ...

    def has_news(self, position: int) -> bool:
        """Return whether the head of an empty piece would tell what no piece before has told."""
        ...


class Plain:
    """4.9's protocol."""

    tells_news = False

    def __init__(self, store: MessageStore) -> None:
        self.hello: Hello | None = Hello(-1)
        self._store = store
        self.hear = PositionReader().feed
        self.head = encode_piece_head

    def greet(self) -> bytes:
        """Say nothing."""
        return b""

    def first_position(self) -> int:
        """Begin with the last file, as RocketMQ does: what is older comes only to slaves that were there."""
        return last_file_start(self._store)

    def piece_end(self, start: int) -> int | None:
        """Let pieces end anywhere."""
        return None

    def has_news(self, position: int) -> bool:
        """Return False: a head tells nothing that matters."""
        return False


class WithEpochs:
    """5.x's protocol."""

    tells_news = True

    def __init__(self, store: MessageStore, epochs: Epochs) -> None:
        self._store = store
        self._epochs = epochs
        self._reader = ReportReader()
        #: The epoch and the confirmed position that were told last.
        self._told = (-1, -1)

    @property
    def hello(self) -> Hello | None:
        """The slave's hello."""
        return self._reader.hello

    def hear(self, data: bytes) -> list[int]:
        """Return the positions that the slave has told with these bytes."""
        return self._reader.feed(data)

    def greet(self) -> bytes:
        """Tell all epochs, for the slave to see what of its log is ours."""
        if not self._epochs.entries:
            raise LocalProtocolError("this master has no epoch yet")
        return encode_welcome(self._store.committed_position, self._epochs.entries)

    def first_position(self) -> int:
        """Begin with the oldest file: a slave that may become master must have all there is."""
        hello = self.hello
        if hello is not None and hello.is_from_last_file:
            return last_file_start(self._store)
        return self._store.min_position

    def piece_end(self, start: int) -> int | None:
        """Let no piece cross into another epoch."""
        entries = self._epochs.entries
        after = bisect_right(entries, start, key=lambda entry: entry.start)
        return entries[after].start if after < len(entries) else None

    def head(self, start: int, size: int) -> bytes:
        """Say of which epoch a piece is, and up to where clients may read."""
        entry, confirmed = self._epoch_at(start), self._confirmed
        self._told = (entry.epoch, confirmed)
        return encode_epoch_piece_head(start, size, entry.epoch, entry.start, confirmed)

    def has_news(self, position: int) -> bool:
        """Return whether the slave knows neither the epoch nor up to where clients may read."""
        return self._told != (self._epoch_at(position).epoch, self._confirmed)

    def _epoch_at(self, position: int) -> Epoch:
        entries = self._epochs.entries
        return entries[max(bisect_right(entries, position, key=lambda entry: entry.start) - 1, 0)]

    @property
    def _confirmed(self) -> int:
        readable = self._store.readable_position
        return self._store.committed_position if readable is None else readable


def last_file_start(store: MessageStore) -> int:
    """Return where the file begins that the log ends in."""
    return store.committed_position - store.committed_position % store.settings.mapped_file_size_commit_log
