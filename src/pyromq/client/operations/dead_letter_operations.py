"""The methods of the client for dead letters."""

from dataclasses import replace
from functools import partial

from pyromq.client.dead_letter import (
    ALL_DEAD_LETTERS,
    DeadLetter,
    DeadLetterCount,
    DeadLetterFilter,
    ReplayOutcome,
    ReplayResult,
    ReplayTo,
)
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.operations.declaration import ClientOperations, IteratingOperation, Operation
from pyromq.client.plans import dead_letter_plans
from pyromq.client.plans.dead_letter_plans import new_tools_session
from pyromq.client.plans.replay_plans import Pace, ReplayRun, find_replay, replay
from pyromq.client.steps import HandOut, Items, Plan
from pyromq.config.settings import ClientSettings
from pyromq.model import ReceivedMessage


class DeadLetterOperations(ClientOperations):
    """Reading, counting and replaying dead letters."""

    def __init__(self, name_server: str | None = None, settings: ClientSettings | None = None) -> None:
        addresses = name_server_addresses(name_server, settings)
        self._set_runner("dead letters", partial(new_tools_session, addresses, settings or ClientSettings()))

    @Operation
    def counts(self) -> Plan[list[DeadLetterCount]]:
        """Return how many dead letters each group has that ever had one, by name."""
        return dead_letter_plans.count_all(self._session)

    @IteratingOperation
    def read(self, group: str, wanted: DeadLetterFilter = ALL_DEAD_LETTERS) -> Items[DeadLetter]:
        """Iterate over a group's dead letters, the oldest first, up to those that there are now.

        The group's progress stays as it is. A group that never had one has none. Raises NoPermission when
        they may not be read: see `make_readable`.
        """
        check_group(group)
        session = self._session
        reading = yield from dead_letter_plans.open_reading(session, group, wanted)
        while (letter := (yield from dead_letter_plans.next_letter(session, reading))) is not None:
            yield HandOut(letter)

    @IteratingOperation
    def replay(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_DEAD_LETTERS,
        *,
        to: ReplayTo = ReplayTo.GROUP,
        rate: float | None = None,
        again: bool = False,
    ) -> Items[ReplayResult]:
        """Replay dead letters, one for each step of the iteration, and return the result of each.

        They go to their group alone, or to their first topic for every group; no more than `rate` a second.
        `again` replays those too that were replayed before; without it they do not count for the limit. One
        that fails does not end the iteration.
        """
        pace = Pace(rate, self._session.clock)
        return self._replayed(group, wanted, ReplayRun(to=to, pace=pace, is_repeated=again))

    @IteratingOperation
    def rehearse(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_DEAD_LETTERS,
        *,
        to: ReplayTo = ReplayTo.GROUP,
        again: bool = False,
    ) -> Items[ReplayResult]:
        """Do as `replay` does, but store nothing: each result says what a replay would do."""
        pace = Pace(None, self._session.clock)
        run = ReplayRun(to=to, pace=pace, is_repeated=again, is_rehearsal=True)
        return self._replayed(group, wanted, run)

    @Operation
    def find_replay(self, letter: DeadLetter) -> Plan[ReceivedMessage | None]:
        """Return the message that a dead letter was replayed as, or None when it was not.

        Raises QueryNotFound when the broker keeps no index of keys, so that nobody can tell.
        """
        return find_replay(self._session, letter)

    @Operation
    def make_readable(self, group: str) -> Plan[None]:
        """Give a group's dead letters the permission to be read, on every broker where they lack it."""
        check_group(group)
        return dead_letter_plans.make_readable(self._session, group)

    def _replayed(self, group: str, wanted: DeadLetterFilter, run: ReplayRun) -> Items[ReplayResult]:
        check_group(group)
        session, left = self._session, wanted.limit
        reading = yield from dead_letter_plans.open_reading(session, group, replace(wanted, limit=None))
        while (letter := (yield from dead_letter_plans.next_letter(session, reading))) is not None:
            result = yield from replay(session, letter, run)
            yield HandOut(result)
            if left is not None and result.outcome is not ReplayOutcome.SKIPPED:
                left -= 1
                if not left:
                    return
