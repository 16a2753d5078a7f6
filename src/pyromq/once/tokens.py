"""The interface of a token store, the same for every database.

A token stands for one piece of business, by its key. It is *processing*, for as long as a lease lasts, and
then *done*, for as long as duplicates may come.
"""

import hashlib
from datetime import timedelta
from enum import Enum, auto
from typing import Final, Protocol

#: How long one may take for a message. Who takes longer may find that another has begun, too.
LEASE: Final = timedelta(minutes=5)
#: How long a duplicate is known for one. Brokers keep messages for 72 hours unless told otherwise.
KEEP: Final = timedelta(days=3)
#: Characters of a key that any database takes as a primary key.
KEY_CHARACTERS_MAX: Final = 255


class Began(Enum):
    """The result of `Tokens.begin`."""

    MINE = auto()
    BUSY = auto()
    DONE = auto()


class Tokens(Protocol):
    """A store of tokens, safe in many threads. `owner` is who holds a token: a word that nobody else uses."""

    def begin(self, key: str, owner: str) -> Began:
        """Take the token, unless another holds it or the work is done."""
        ...

    def finish(self, key: str, owner: str) -> None:
        """Write down that the work is done."""
        ...

    def forget(self, key: str, owner: str) -> None:
        """Remove the token, so that the work can be begun again."""
        ...


def stored_key(scope: str, key: str) -> str:
    """Return the key as it is stored: short enough for any database, and apart from other scopes' keys."""
    full = f"{scope}:{key}" if scope else key
    if len(full) <= KEY_CHARACTERS_MAX:
        return full
    return "sha256:" + hashlib.sha256(full.encode()).hexdigest()


def in_ms(time: timedelta) -> int:
    """Return a time in milliseconds."""
    return time // timedelta(milliseconds=1)
