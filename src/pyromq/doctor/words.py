"""Words that findings share: few of many names, numbers for people."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from pyromq.model import MessageQueue

#: Names that are shown of many.
SHOWN: Final = 5


def some_of(names: Sequence[str], most: int = SHOWN) -> str:
    """Return names joined by commas, the first few if they are many."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def both(names: Sequence[str]) -> str:
    """Return names joined as in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(count: int, what: str) -> str:
    """Return "1 queue" or "2 queues"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def place_of(queue: MessageQueue) -> str:
    """Return where a queue is: its broker, and its number there."""
    return f"{queue.broker_name}:{queue.queue_id}"


def verb(count: int, one: str, more: str) -> str:
    """Return the form of a verb for a count: "is" or "are"."""
    return one if count == 1 else more


def meant(name: str, names: Iterable[str]) -> str:
    """Return a question for a name that is not there: the names that are like it, if there are any."""
    near = get_close_matches(name, set(names) - {name}, n=3)
    return (
        f"is the name right? there {'is' if len(near) == 1 else 'are'} {both(near)}"
        if near
        else "is the name right?"
    )


def sized(count: float) -> str:
    """Return bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def lasted(seconds: float) -> str:
    """Return a time span for people."""
    seconds = abs(seconds)
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


def lines(*texts: str | Iterable[str]) -> str:
    """Return steps as lines."""
    return "\n".join(line for text in texts for line in ([text] if isinstance(text, str) else text))
