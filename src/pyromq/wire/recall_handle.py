"""The handle by which a message that waits for its time is taken back (RocketMQ 5.3: RecallMessageHandle).

    base64url( "v1" SP topic SP broker name SP time in ms SP unique id )

A broker puts it into the answer to the send. Clients look only at the broker's name, to know whom to ask.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from pyromq.errors import HeaderError

_VERSION: Final = "v1"
_WORDS: Final = 5


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """A scheduled message's broker, id and time of delivery."""

    topic: str
    broker_name: str
    due_ms: int
    message_id: str

    def encode(self) -> str:
        """Return the handle as it travels."""
        words = (_VERSION, self.topic, self.broker_name, str(self.due_ms), self.message_id)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Return what a handle says; raise HeaderError when it is none."""
    try:
        # Java writes the padding and does not need it.
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        words = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(" ")
        if words[0] != _VERSION or len(words) < _WORDS:
            raise HeaderError("recall handle is invalid")
        return RecallHandle(words[1], words[2], int(words[3]), words[4])
    except (binascii.Error, ValueError) as error:
        raise HeaderError("recall handle is invalid") from error
