"""The output of the commands: colours on a terminal, JSON where it is asked for.

Plain escape codes instead of rich: the servers print ten lines in their life, and rich takes longer to import
than the broker takes to start.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any
from unicodedata import combining, east_asian_width

#: Columns of a character of Chinese, Japanese or Korean.
_WIDE = 2
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def paint(text: str, style: str, stream: IO[str] | None = None) -> str:
    """Return the text in a style if the stream is a terminal that may have colours, else as it is."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def say(text: str) -> None:
    """Print a line now, whatever it is piped to."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        if not _Reader.may_leave:
            raise
        forget_standard_output()


class _Reader:
    may_leave = False


def outlive_reader() -> None:
    """Go on when nobody reads the output any more, as in `pyromq produce … | head`: there is work to do.

    A command that only shows something ends then.
    """
    _Reader.may_leave = True


def say_json(record: Mapping[str, Any]) -> None:
    """Print an object as one line of JSON."""
    # Only now: a server that nobody asks for JSON does without it.
    import json

    say(json.dumps(record, ensure_ascii=False, separators=(",", ":")))


def note(text: str) -> None:
    """Print on standard error what is being done."""
    sys.stderr.write(f"{paint('…', 'cyan', sys.stderr)} {text}\n")
    sys.stderr.flush()


def warn(text: str) -> None:
    """Print a warning on standard error."""
    sys.stderr.write(f"{paint('warning:', 'yellow', sys.stderr)} {text}\n")
    sys.stderr.flush()


def complain(text: str) -> None:
    """Print an error on standard error; further lines are indented below the first."""
    head, *rest = text.splitlines() or [""]
    lines = [f"{paint('pyromq:', 'red', sys.stderr)} {head}", *(f"        {line}" for line in rest)]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Return rows as lines of aligned columns."""
    widths = [max(width_of(row[at]) for row in rows) for at in range(len(rows[0]))] if rows else []
    return [
        gap.join(
            cell + " " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: 订单 takes four."""
    if text.isascii():
        return len(text)
    return sum(_WIDE if east_asian_width(one) in "WF" else not combining(one) for one in text)


def is_reader_gone() -> bool:
    """Whether nobody reads standard output any more: it is a pipe whose other end is closed.

    Rich, when it finds that out first, sends further output nowhere.
    """
    import select

    if os.path.sameopenfile(1, os.open(os.devnull, os.O_WRONLY)):
        return True
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def forget_standard_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
