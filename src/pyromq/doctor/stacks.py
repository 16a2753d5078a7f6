"""The thread that matters, out of the stacks that a consumer sends. Pure.

Java and our consumers send the stacks of all threads as one text, each in its own way:

    ConsumeMessageThread_billing_1       TID: 42 STATE: TIMED_WAITING      pyromq-listener-billing-1 TID: 42
    ConsumeMessageThread_billing_1       java.lang.Thread.sleep(Native)      File "app.py", line 7, in handle
    ConsumeMessageThread_billing_1       app.Listener.on(Listener.java:7)      sleep(60)

Java's innermost call comes first, Python's last; both are told here with the innermost last. What calls the
application is left out, and a thread that waits for work does not matter.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final

#: Calls of one thread that are shown; of more, the first and the last ones.
CALLS_MAX: Final = 8
_HEAD: Final = re.compile(r"^(?P<name>\S.*?)\s*TID: (?P<id>\S+)")
_LISTENERS: Final = ("ConsumeMessageThread_", "pyromq-listener")
#: Whatever calls listeners, in Java and here, and where Java's wait for work.
_AROUND: Final = re.compile(
    r"org\.apache\.rocketmq\.client\.impl\.consumer\.|java\.util\.concurrent\.|java\.lang\.Thread\.run"
    r"|/pyromq/client/(push|hooks)|/threading\.py\"|/asyncio/(runners|base_events|events)\.py\""
)
#: What Java 9 and later write before a call, and its calls that are in no source.
_MODULE: Final = re.compile(r"^[\w.@-]*//?")
_LAMBDA: Final = "$$Lambda$"
_WAITS_FOR_WORK: Final = "ThreadPoolExecutor.getTask"


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: its name, and the application's calls on it, the innermost last."""

    name: str
    calls: tuple[str, ...]
    #: How many threads are at the same place.
    count: int = 1

    @property
    def shown(self) -> list[str]:
        """The calls as far as there is room."""
        if len(self.calls) <= CALLS_MAX:
            return list(self.calls)
        return [self.calls[0], "…", *self.calls[-CALLS_MAX + 2 :]]


def listening_thread(stacks: str, group: str) -> Thread | None:
    """Return the thread that most of a group's busy listeners are like; None if none is seen to be busy."""
    named = [(name, lines) for name, lines in _threads(stacks) if name.startswith(_LISTENERS)]
    # A process may have several groups; clients before 4.9 do not name the group.
    own = [thread for thread in named if group in thread[0]] or named
    busy = [(name, calls) for name, lines in own if (calls := _own_calls(name, lines))]
    if not busy:
        return None
    (calls, count), *_ = Counter(calls for _, calls in busy).most_common(1)
    return Thread(next(name for name, its in busy if its == calls), calls, count)


def _threads(stacks: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in stacks.splitlines():
        if (head := _HEAD.match(line)) is not None:
            found.append((head["name"], []))
        elif found and line.strip():
            found[-1][1].append(line)
    return found


def _own_calls(name: str, lines: list[str]) -> tuple[str, ...]:
    """Return the application's calls of a thread, the innermost last; none if it waits for work."""
    if any(_WAITS_FOR_WORK in line for line in lines):
        return ()
    if any(line.startswith(name) for line in lines):
        calls = [_MODULE.sub("", line[len(name) :].strip()) for line in reversed(lines)]
        calls = [call for call in calls if _LAMBDA not in call]
    else:
        calls = _python_calls(lines)
    # Only the outer ones go: what the application waits in may be the language's own.
    return tuple(dropwhile(_AROUND.search, calls))


def _python_calls(lines: list[str]) -> list[str]:
    """Join the line that names a place and the line of code there."""
    calls: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith('File "') or not calls:
            calls.append(text)
        else:
            calls[-1] += f": {text}"
    return calls
