"""Exit statuses of the commands, for scripts, and the next step that a person is told.

0    done
1    failed: a server said no, or part of it was not done
2    wrong use: an option or a setting; a name that no topic may have, a message that breaks a rule
3    not there, or not yet: no such cluster, topic, group or message; nobody connected; members disagree
4    no answer: a name server or broker cannot be reached
5    in part: some brokers did not answer; what the others say is shown
130  interrupted
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from pyromq.advice import advice_for, advice_on
from pyromq.cli import output
from pyromq.codes import ResponseCode
from pyromq.errors import (
    ConfigError,
    MessageIllegal,
    NetworkError,
    NoNameServer,
    NoRoute,
    PyroError,
    Refused,
    UnknownTopic,
)
from pyromq.errors import NotThere as NotThere

DONE = 0
FAILED = 1
MISUSED = 2
NOT_THERE = 3
NO_ANSWER = 4
IN_PART = 5
INTERRUPTED = 130

_ABSENT = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.QUERY_NOT_FOUND,
        ResponseCode.CONSUMER_NOT_ONLINE,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.NO_MESSAGE,
    }
)

#: How the error of a server's refusal begins.
_REFUSAL = re.compile(r"[A-Z_]+ \(\d+\): |code \d+: ")
#: Words of errors that say what to do themselves.
_ADVISING = ("--advertise", "NAMESRV_ADDR", "fileReservedTime")


def status_of(error: PyroError) -> int:
    """Return the exit status that an error ends a command with."""
    if isinstance(error, ConfigError | NoNameServer | MessageIllegal):
        return MISUSED
    if isinstance(error, NotThere | NoRoute) or (isinstance(error, Refused) and error.code in _ABSENT):
        return NOT_THERE
    if isinstance(error, NetworkError):
        return NO_ANSWER
    return FAILED


def status_of_part(asked: int, failures: Sequence[str]) -> int:
    """Return the status of a look at servers of which some failed; refusals are no silence."""
    if not failures:
        return DONE
    if len(failures) < asked:
        return IN_PART
    return FAILED if all(_REFUSAL.match(one) for one in failures) else NO_ANSWER


def next_step(error: PyroError) -> str | None:
    """Return what to do about an error that does not say so itself."""
    if isinstance(error, ConfigError | NoNameServer | NoRoute | NotThere) or any(
        word in str(error) for word in _ADVISING
    ):
        return None
    advice = advice_for(error)
    if advice is None:
        return None
    return f"{advice.step} ({advice.at_terminal})" if advice.at_terminal else advice.step


def say_next_step(failures: Sequence[str]) -> None:
    """Say what to do about failures that were told, if one of them has something that is known."""
    for advice in filter(None, map(advice_on, failures)):
        sys.stderr.write(f"        {advice.step}\n")
        return


@contextmanager
def ended_by_errors() -> Iterator[None]:
    """End the command with the status of an error, after its cause and the next step."""
    try:
        yield
    except PyroError as told:
        error = _shorter(told)
        hint = next_step(error)
        output.complain(str(error) if hint is None else f"{error}\n{hint}")
        raise SystemExit(status_of(error)) from told


@contextmanager
def border() -> Iterator[None]:
    """End the program with the status of what goes wrong, after saying what."""
    try:
        with ended_by_errors():
            yield
    except SystemExit as ended:
        # Typer ends the program itself when a pipe is broken, with status 1.
        if isinstance(ended.__context__, BrokenPipeError) and output.is_reader_gone():
            _end_unread()
        raise
    except OSError as error:
        if isinstance(error, BrokenPipeError) and output.is_reader_gone():
            _end_unread()
        output.complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _end_unread() -> NoReturn:
    """End well: whoever read our output has what it wanted, as `head` does."""
    # Nothing is left to be flushed.
    output.forget_standard_output()
    sys.exit(DONE)


def _shorter(error: PyroError) -> PyroError:
    """Return an error in a command's words where a client's are meant for programs."""
    if not isinstance(error, UnknownTopic):
        return error
    from pyromq.cli.views.likely import shorter

    return shorter(error)
