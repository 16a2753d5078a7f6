"""What somebody may have meant who named something that is not there."""

from collections.abc import Collection
from difflib import get_close_matches


def others(kind: str, name: str, known: Collection[str]) -> str:
    """Return which names are like this one, or where all of them are listed."""
    command = f"pyromq {kind.removesuffix('s')} list"
    if near := get_close_matches(name, known, n=3):
        return f"did you mean {' or '.join(near)}? All {kind}: {command}"
    return f"the {kind} that there are: {command}"
