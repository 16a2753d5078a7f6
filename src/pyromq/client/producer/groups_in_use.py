"""The producer groups that are in use in this process, by client id.

Clients get an id of their own unless `instance_name` is given; two producers of one group under one id would
take each other's replies and questions, so the second does not start (RocketMQ: "has been created before").
"""

from collections.abc import Sequence

from pyromq.client.client_session import Session, new_session
from pyromq.client.hooks import SendHook
from pyromq.config.settings import ClientSettings
from pyromq.errors import AlreadyStarted

_in_use: dict[tuple[int, str, str], Session] = {}


def producer_session(
    group: str, addresses: tuple[str, ...], settings: ClientSettings, send_hooks: Sequence[SendHook]
) -> Session:
    """Return a new producer's session; raise AlreadyStarted when its group is in use under its client id."""
    session = new_session(group, addresses, settings, send_hooks=send_hooks)
    # No lock: this alone is atomic, and a lock might be held by another thread at a fork.
    if _in_use.setdefault(_key(session), session) is not session:
        raise AlreadyStarted(
            f"producer group {session.group!r} has been created before in this process, under the client id "
            f"{session.identity.client_id}; use that producer, or give this one another group or another "
            "ClientSettings.instance_name"
        )
    return session


def release_group(session: Session) -> None:
    """Note that a producer is closed."""
    if _in_use.get(_key(session)) is session:
        del _in_use[_key(session)]


def _key(session: Session) -> tuple[int, str, str]:
    return session.identity.pid, session.identity.client_id, session.group
