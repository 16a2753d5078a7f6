"""Dead letters, blocking."""

# Written by tools/gen_blocking.py from src/pyromq/client/aio/dead_letters.py; change it there.

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from pyromq.client.dead_letters import (
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
from pyromq.client.plans import dead_letters
from pyromq.client.plans.dead_letters import new_tools_session
from pyromq.client.plans.replay import Pace, ReplayRun, find_replay, replay
from pyromq.client.sync.runner import Runner
from pyromq.config.settings import ClientSettings
from pyromq.model import ReceivedMessage


class DeadLetters:
    """Reads what groups gave up, and replays it.

        with DeadLetters("127.0.0.1:9876") as letters:
            for result in letters.replay("billing", DeadLetterFilter(tag="paid"), rate=50):
                print(result.letter.message_id, result.outcome, result.error or result.offset_message_id)

    A dead letter that was replayed before is skipped, by whoever and whenever it was; so a replay that was
    cut off is begun again and goes on where it ended. Works on Apache's brokers too.
    """

    def __init__(self, name_server: str | None = None, settings: ClientSettings | None = None) -> None:
        addresses = name_server_addresses(name_server, settings)
        self._runner = Runner(
            "dead letters", partial(new_tools_session, addresses, settings or ClientSettings())
        )

    def start(self) -> None:
        """Begin; a `with` block does it."""
        self._runner.start()

    def close(self) -> None:
        """Close the connections."""
        self._runner.close()

    def counts(self) -> list[DeadLetterCount]:
        """Return how many dead letters each group has that ever had one, by name."""
        return self._runner.run(dead_letters.count_all(self._runner.session))

    def read(self, group: str, wanted: DeadLetterFilter = ALL_DEAD_LETTERS) -> Iterator[DeadLetter]:
        """Iterate over a group's dead letters, the oldest first, up to those that there are now.

        The group's progress stays as it is. A group that never had one has none. Raises NoPermission when
        they may not be read: see `make_readable`.
        """
        check_group(group)
        session = self._runner.session
        reading = self._runner.run(dead_letters.open_reading(session, group, wanted))
        while (letter := self._runner.run(dead_letters.next_letter(session, reading))) is not None:
            yield letter

    def replay(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_DEAD_LETTERS,
        *,
        to: ReplayTo = ReplayTo.GROUP,
        rate: float | None = None,
        again: bool = False,
    ) -> Iterator[ReplayResult]:
        """Replay dead letters, one for each step of the iteration, and say of each what became of it.

        They go to their group alone, or to their first topic for every group; no more than `rate` a second.
        `again` replays those too that were replayed before; without it they do not count for the limit. One
        that fails does not end the iteration.
        """
        pace = Pace(rate, self._runner.session.clock)
        return self._replay(group, wanted, ReplayRun(to=to, pace=pace, is_repeated=again))

    def rehearse(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_DEAD_LETTERS,
        *,
        to: ReplayTo = ReplayTo.GROUP,
        again: bool = False,
    ) -> Iterator[ReplayResult]:
        """Do as `replay` does, but store nothing: the results say what would become of each."""
        pace = Pace(None, self._runner.session.clock)
        run = ReplayRun(to=to, pace=pace, is_repeated=again, is_rehearsal=True)
        return self._replay(group, wanted, run)

    def find_replay(self, letter: DeadLetter) -> ReceivedMessage | None:
        """Return the message that a dead letter was replayed as, or None when it was not.

        Raises QueryNotFound when the broker keeps no index of keys, so that nobody can tell.
        """
        return self._runner.run(find_replay(self._runner.session, letter))

    def make_readable(self, group: str) -> None:
        """Give a group's dead letters the permission to be read, on every broker where they lack it."""
        check_group(group)
        self._runner.run(dead_letters.make_readable(self._runner.session, group))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _replay(self, group: str, wanted: DeadLetterFilter, run: ReplayRun) -> Iterator[ReplayResult]:
        left = wanted.limit
        for letter in self.read(group, replace(wanted, limit=None)):
            result = self._runner.run(replay(self._runner.session, letter, run))
            yield result
            if left is not None and result.outcome is not ReplayOutcome.SKIPPED:
                left -= 1
                if not left:
                    return
