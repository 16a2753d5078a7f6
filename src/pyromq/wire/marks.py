"""Encoded bytes with marks in the places of what varies, cut there: how the kernel is told frames."""

from collections.abc import Mapping
from typing import Final

#: What follows the last piece.
NOTHING: Final = 0

#: The pieces between the marks, each with the number of what follows it.
Parts = list[tuple[bytes, int]]


def cut_at_marks(text: bytes, marks: Mapping[bytes, int]) -> Parts:
    """Return the pieces of a text; raise ValueError when a mark is not there exactly once."""
    if any(text.count(mark) != 1 for mark in marks):
        raise ValueError(f"something in {text!r} looks like a mark")
    parts, start = [], 0
    for at, mark in sorted((text.index(mark), mark) for mark in marks):
        parts.append((text[start:at], marks[mark]))
        start = at + len(mark)
    return [*parts, (text[start:], NOTHING)]
