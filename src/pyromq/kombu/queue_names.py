"""RocketMQ's names for kombu's queues and exchanges.

RocketMQ's names have letters, digits, `_`, `-`, `%` and `|`. Any other character is written as % and the
two hexadecimal digits of each of its bytes, so two queues never share a topic. A name that becomes too long
ends with a hash of itself.
"""

import hashlib
import re
from typing import Final

from pyromq.name_rules import TOPIC_CHARACTERS_MAX

_OTHERS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_CHARACTERS: Final = 16


def topic_of(queue: str, prefix: str = "") -> str:
    """Return the topic of a queue, which is the name of its consumer group too."""
    return _fitting(prefix + _OTHERS.sub(_escaped, queue))


def exchange_topic(exchange: str, prefix: str = "") -> str:
    """Return the topic of a shared exchange. No queue has it: `|` is never in the topic of one."""
    return _fitting(f"{prefix}exchange|{_OTHERS.sub(_escaped, exchange)}")


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode())


def _fitting(name: str) -> str:
    if len(name) <= TOPIC_CHARACTERS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: TOPIC_CHARACTERS_MAX - _HASH_CHARACTERS - 1]}-{digest}"
