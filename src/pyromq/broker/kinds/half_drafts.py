"""Drafts of the messages that are stored when a half message is committed, given up or done with."""

from pyromq import system_names
from pyromq.broker.kinds.stored_again import QUEUE_ID, draft_of, due_draft, own_draft
from pyromq.codes import TRANSACTION_MASK, SysFlag
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.record import Record

#: The tag of an op message: the half is done with.
DONE_TAG = "d"
_COMMIT = int(SysFlag.TRANSACTION_COMMIT)
OP_PROPERTIES = names.encode({names.TAGS: DONE_TAG, names.WAIT: "true"})


def committed_draft(half: Record) -> Draft | None:
    """Return a half as the message that consumers get, or None when it does not say where it belongs."""
    draft = due_draft(half)
    if draft is None:
        return None
    draft.sys_flag = half.sys_flag & ~TRANSACTION_MASK | _COMMIT
    draft.prepared_position = half.position
    return draft


def given_up_draft(half: Record) -> Draft:
    """Return a half as operators find it when its producer was asked often enough."""
    draft = draft_of(half)
    draft.topic, draft.queue_id = system_names.TRANSACTION_CHECK_MAX_TIME, QUEUE_ID
    return draft


def op_draft(offset: int, *, now_ms: int, host: bytes) -> Draft:
    """Return the op message that says that the half at an offset is done with."""
    body = str(offset).encode()
    return own_draft(
        system_names.TRANSACTION_OP_HALF, body, OP_PROPERTIES, born_at_ms=now_ms, store_host=host
    )
