"""The comparison of a slave's log with its master's, before anything is copied: is it the beginning of it?

With static roles there are no epochs to compare. The slave asks for its own last whole record by its position
(VIEW_MESSAGE_BY_ID, which Apache's brokers answer too). The same bytes: everything before them is the same,
because it was copied from there. Other bytes, or none: one of the two has what the other has not, and copying
would mix them.
"""

import struct
from typing import Final

from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import PyroError
from pyromq.net.links import Links
from pyromq.store.store import MessageStore
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.query_headers import ViewMessage
from pyromq.wire.record import RECORD_BYTES_MIN, is_blank

REQUEST_TIMEOUT_S: Final = 3.0
#: What to do about two logs that do not fit; nobody but the user knows which of them is right.
MENDING: Final = (
    "If the master is right, stop this slave, remove its store folder, and start it again for a new copy"
)
_INT32: Final = struct.Struct(">i")


class Diverged(PyroError):
    """A slave's log is not the beginning of its master's; `common_end` is up to where it is, if known.

    With `shares_no_epoch` both logs have epochs, and none of them is the same: not a byte is known to be.
    """

    def __init__(self, text: str, common_end: int | None = None, *, shares_no_epoch: bool = False) -> None:
        super().__init__(text)
        self.common_end = common_end
        self.shares_no_epoch = shares_no_epoch


async def check_last_record(store: MessageStore, links: Links, address: str) -> None:
    """Compare the last whole record with the master's; raise Diverged, or NetworkError without an answer."""
    position = last_record_position(store)
    if position is None:
        return
    ours = store.read_at(position)
    question = Command(RequestCode.VIEW_MESSAGE_BY_ID, ext=write_header(ViewMessage(offset=position)))
    answer = await links.request(address, question, REQUEST_TIMEOUT_S)
    if answer.code == ResponseCode.SUCCESS and answer.body == ours:
        return
    what = "has something else there"
    if answer.code != ResponseCode.SUCCESS:
        what = "has none there: it never had it, or has removed it by now"
    raise Diverged(
        f"the last message of this slave is at {position} of its log, and the master {address} {what}. "
        f"The two logs do not fit, and nothing is copied. {MENDING}"
    )


def last_record_position(store: MessageStore) -> int | None:
    """Return where the last whole record of the log begins; None when there is none.

    The newest message of the queues is at or near the end; only the few that have no place in a queue can
    stand behind it.
    """
    newest = max(store.queues, key=lambda queue: queue.reach, default=None)
    place = newest.place(newest.end - 1) if newest is not None and newest.reach else None
    position = store.min_position if place is None else max(place[0], store.min_position)
    last = None
    while (segment := store.log.segment_at(position)) is not None and position < store.max_position:
        at, limit = position - segment.base, min(store.max_position, segment.end) - segment.base
        with memoryview(segment.map) as view:
            while at + RECORD_BYTES_MIN <= limit and not is_blank(view, at):
                size = _INT32.unpack_from(view, at)[0]
                if size < RECORD_BYTES_MIN or at + size > limit:
                    return last
                last, at = segment.base + at, at + size
        position = segment.end
    return last
