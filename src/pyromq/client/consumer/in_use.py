"""The members of groups in this process: a client id is at most one member of a group.

Two members with one id would take each other's queues for their own.
"""

import os
import threading

from pyromq.errors import AlreadyStarted

_lock = threading.Lock()
_taken: set[tuple[int, str, str]] = set()


def enter(client_id: str, group: str) -> None:
    """Take a group for a client id; raise AlreadyStarted when it is taken."""
    with _lock:
        if _key(client_id, group) in _taken:
            raise AlreadyStarted(
                f"group {group!r} has a started consumer in this process already, as client {client_id}: "
                "close that one, choose another group, or give each its own instance_name in ClientSettings"
            )
        _taken.add(_key(client_id, group))


def leave(client_id: str, group: str) -> None:
    """Give a group free again."""
    with _lock:
        _taken.discard(_key(client_id, group))


def _key(client_id: str, group: str) -> tuple[int, str, str]:
    # A child of fork has its parent's set, but not its parent's clients.
    return os.getpid(), client_id, group
