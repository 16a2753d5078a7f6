"""`pyromq admin drain`: take a broker out of service without losing what is on it.

    wipe the write permission at every name server, so that producers choose other brokers
    look what is still unread, by topic and group, until nothing is, and nobody sends any more
    say that the broker may be stopped

A name server that hears of a change of the broker's topics gives the permission back (RocketMQ's do so), and
so does one that was restarted: it is taken again at each look.
"""

import dataclasses
from dataclasses import dataclass
from shlex import quote
from typing import Any

from pyromq.cli import output
from pyromq.cli.admin.operator import Operator
from pyromq.cli.admin.scaling_views import run_allow_writes, show_told
from pyromq.cli.views.likely import typed
from pyromq.client.plans.admin.drain_plans import Leftovers, leftovers
from pyromq.client.plans.admin.scaling_plans import allow_writes, writable_at
from pyromq.clock import Clock, SystemClock
from pyromq.errors import PyroError

_SHOWN_TOPICS_MAX = 10
_NOBODY = "(no group reads it)"


class NowhereElse(PyroError):
    """Topics are on this broker only, so their producers would have nowhere to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """The options of a drain."""

    broker: str
    name_server: str
    #: Wait until it may be stopped.
    waits: bool = True
    #: Go on although topics are on this broker only.
    is_forced: bool = False
    #: Groups whose unread messages do not matter.
    ignored_groups: frozenset[str] = frozenset()
    #: Seconds between two looks.
    interval_s: float = 2.0
    #: Seconds without a new message after which no producer is taken to know the broker any more.
    settle_s: float = 35.0
    is_json: bool = False


def run_undo(options: DrainOptions) -> bool:
    """Let producers choose a broker again, and return whether every name server knows it."""
    return run_allow_writes(
        options.broker, is_allowed=True, name_server=options.name_server, is_json=options.is_json
    )


def run_drain(options: DrainOptions) -> bool:
    """Drain a broker, and return whether it may be stopped."""
    with Operator(options.name_server) as operator:
        drain = _Drain(options, operator, SystemClock())
        drain.begin()
        try:
            return drain.watch()
        except KeyboardInterrupt:
            output.warn(
                f"{options.broker} still gets no new messages; drain it again to go on, or give it back: "
                f"{typed(f'pyromq admin drain {quote(options.broker)} --undo', options.name_server)}"
            )
            raise


class _Drain:
    """One broker on its way out."""

    def __init__(self, options: DrainOptions, operator: Operator, clock: Clock) -> None:
        self._options = options
        self._operator = operator
        self._clock = clock
        self._began_s = clock.monotonic()
        #: Since when no new message was seen.
        self._quiet_since_s = self._began_s
        self._was_wiped = False
        self._before: Leftovers | None = None

    def begin(self) -> None:
        """Take the write permission away, unless producers would have nowhere to send then."""
        left = self._look()
        is_writable = self._operator.run(lambda session, _: writable_at(session, self._options.broker))
        self._was_wiped = not any(is_writable.values())
        if left.only_here and not self._was_wiped and not self._options.is_forced:
            raise NowhereElse(_only_here(left))
        if not self._was_wiped:
            self._wipe()

    def watch(self) -> bool:
        """Look until the broker may be stopped, or once; return whether it may."""
        while True:
            left = self._look()
            if self._before is None or left.stored != self._before.stored:
                self._quiet_since_s = self._clock.monotonic()
            may_stop = self._may_stop(left)
            if self._options.is_json:
                output.say_json(self._as_record(left, may_stop=may_stop))
            elif self._before is None:
                _print_leftovers(left, self._unread(left))
            elif self._is_news(left):
                output.note(self._progress(left))
            self._before = left
            if may_stop or not self._options.waits:
                self._conclude(left, may_stop=may_stop)
                return may_stop
            self._operator.pause(self._options.interval_s)
            self._wipe_again()

    def _look(self) -> Leftovers:
        return self._operator.run(
            lambda session, deadline: leftovers(session, self._options.broker, deadline)
        )

    def _wipe(self) -> None:
        told = self._operator.run(
            lambda session, deadline: allow_writes(
                session, self._options.broker, is_allowed=False, deadline=deadline
            )
        )
        show_told(self._options.broker, told, is_allowed=False, is_json=self._options.is_json)

    def _wipe_again(self) -> None:
        is_writable = self._operator.run(lambda session, _: writable_at(session, self._options.broker))
        if any(is_writable.values()):
            self._quiet_since_s = self._clock.monotonic()
            self._wipe()

    def _unread(self, left: Leftovers) -> int:
        return sum(one.count for one in left.unread if one.group not in self._options.ignored_groups)

    def _is_settled(self) -> bool:
        """Whether no producer is taken to know the broker any more."""
        if not self._options.waits:
            return self._was_wiped or self._options.settle_s <= 0
        return self._clock.monotonic() - self._quiet_since_s >= self._options.settle_s

    def _may_stop(self, left: Leftovers) -> bool:
        return self._is_settled() and not self._unread(left) and not left.waiting

    def _is_news(self, left: Leftovers) -> bool:
        assert self._before is not None
        return (self._unread(left), left.waiting, left.stored) != (
            self._unread(self._before),
            self._before.waiting,
            self._before.stored,
        )

    def _progress(self, left: Leftovers) -> str:
        behind = sorted((one for one in left.unread if one.count), key=lambda one: -one.count)
        most = f", most of them {behind[0].topic} by {behind[0].group}" if behind else ""
        came = left.stored - (self._before.stored if self._before is not None else left.stored)
        return (
            f"{self._unread(left):,} unread{most}; {left.waiting:,} wait for their time; "
            f"{came:,} new since the last look"
        )

    def _conclude(self, left: Leftovers, *, may_stop: bool) -> None:
        if self._options.is_json:
            return
        name = left.broker_name
        if may_stop:
            for line in _kept_only_here(left):
                output.warn(line)
            output.say(
                output.paint(f"{name} may be stopped", "green")
                + f": every group has read what is on it, and nobody sends to {left.address} any more"
            )
        elif self._unread(left) or left.waiting:
            output.say(f"{name} may not be stopped yet: {self._progress(left)}")
        else:
            output.say(
                f"{name} may not be stopped yet: all is read, but producers may still know it; look again in "
                f"{self._options.settle_s:.0f} s"
            )

    def _as_record(self, left: Leftovers, *, may_stop: bool) -> dict[str, Any]:
        return {
            "event": "drain",
            "may_stop": may_stop,
            "unread_count": self._unread(left),
            **dataclasses.asdict(left),
        }


def _only_here(left: Leftovers) -> str:
    shown = ", ".join(left.only_here[:_SHOWN_TOPICS_MAX])
    more = len(left.only_here) - _SHOWN_TOPICS_MAX
    silent = "".join(f"\n{name} did not say what it has: {why}" for name, why in left.silent.items())
    return (
        f"these topics are on {left.broker_name} only, and their producers would have nowhere to send: "
        f"{shown}{f' and {more} more' if more > 0 else ''}{silent}\n"
        "create each on another broker first: `pyromq topic create TOPIC --broker HOST:PORT`;\n"
        "or stop their producers and say --force"
    )


def _print_leftovers(left: Leftovers, unread: int) -> None:
    rows = [["topic", "group", "unread"]]
    rows += [
        [one.topic, one.group, f"{one.count:,}"]
        for one in sorted(left.unread, key=lambda one: (-one.count, one.topic, one.group))
        if one.count
    ]
    parts, behind = len(left.unread), len(rows) - 1
    output.say(
        f"{left.broker_name} at {left.address}: {unread:,} unread, {left.waiting:,} waiting for their time; "
        f"{parts - behind} of {parts} pairs of topic and group are done"
    )
    rows += [[topic, _NOBODY, f"{count:,}"] for topic, count in sorted(left.unclaimed.items())]
    for line in output.columns(rows) if len(rows) > 1 else ():
        output.say(f"  {line}")
    for group in left.broadcasting:
        output.warn(f"group {group} broadcasts: only its members know how far each of them got")


def _kept_only_here(left: Leftovers) -> list[str]:
    """Return, in words, what nobody waits for and what would still go with the broker."""
    lines = [
        f"{count:,} messages of topic {topic} were read by no group and are on this broker only"
        for topic, count in left.unclaimed.items()
    ]
    lines += [
        f"{count:,} dead letters of group {group} are on this broker only: see `pyromq dlq list {group}`"
        for group, count in left.dead_letters.items()
    ]
    return lines
