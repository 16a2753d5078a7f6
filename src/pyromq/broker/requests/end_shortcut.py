"""Ends of transactions without a Python object for each: what the kernel is told of them.

The kernel plans them with the sends of the same turn (`send_shortcut.py`). It asks once for each plan that
has an end whether ends are taken now, and what the halves are. Where Python stored a committed message, the
kernel stores the next ones.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyromq import system_names
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.kinds.half_drafts import OP_PROPERTIES
from pyromq.broker.kinds.half_messages import HalfMessages
from pyromq.broker.requests.answer_parts import binary_parts, json_parts
from pyromq.codes import VERSION, Language, RequestCode
from pyromq.store.commitlog import CommitLog
from pyromq.store.store import MessageStore

if TYPE_CHECKING:
    from pyromq._kernel.requests.ends import Ends


Look = Callable[[], tuple[CommitLog, bytearray, int, dict[str, int]] | None]


def fast_ends(halves: HalfMessages, write: WritePath, store: MessageStore) -> "Ends":
    """Return the kernel's part of a broker, which tells the halves what it decided."""
    durability, log = write.durability, store.log

    def look() -> tuple[CommitLog, bytearray, int, dict[str, int]] | None:
        return (log, *halves.look()) if durability.takes_ends() else None

    ends = make_ends(
        look, store_host=write.addresses.store_host, body_bytes_max=store.settings.max_message_size
    )
    halves.take_ended = ends.take_ended
    return ends


def make_ends(look: Look, *, store_host: bytes, body_bytes_max: int) -> "Ends":
    """Return the kernel's part; `look` returns the log, the decided halves, and their newest copies."""
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.requests.ends import Ends

    return Ends(
        look,
        half_topic=system_names.TRANSACTION_HALF.encode(),
        op_topic=system_names.TRANSACTION_OP_HALF.encode(),
        op_properties=OP_PROPERTIES.encode(),
        store_host=store_host,
        body_bytes_max=body_bytes_max,
        code=RequestCode.END_TRANSACTION,
        answer_parts=json_parts(None),
        binary_parts=binary_parts({}),
        language=int(Language.JAVA),
        version=VERSION,
    )
