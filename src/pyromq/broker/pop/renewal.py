"""Auto-renewal: a message stays with a client that is there, for three hours at most.

Nothing is done before the visible time of a message comes. Then:

    its client is there, and the message is younger than three hours    invisible for 1, 3, 5, 10, 30, 60 min
    it is older                                                         once more, by the group's retry policy
    its client is gone                                                  it comes again

After a start clients have two minutes to show up.
"""

from collections.abc import Callable
from typing import Final

from pyromq.broker.groups.groups import GroupTable
from pyromq.clock import Clock
from pyromq.wire.bodies.retry_policy import DEFAULT_RETRY_POLICY

_MINUTE_MS: Final = 60_000
#: How long each renewal lasts, and the last one over and over.
_STEPS_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 3, 5, 10, 30, 60))
#: RocketMQ's renewMaxTimeMillis.
AGE_MAX_MS: Final = 3 * 60 * _MINUTE_MS
_SHOW_UP_S: Final = 120.0
#: How soon a client is looked for again that may not have shown up yet.
_LOOK_AGAIN_MS: Final = 5_000
_DELAY_MS_MIN: Final = 1_000


class Renewal:
    """Says for how long messages are renewed. `is_there` tells whether a group has a client."""

    def __init__(self, clock: Clock, groups: GroupTable) -> None:
        self._clock = clock
        self._groups = groups
        self._started_at = clock.monotonic()
        self.is_there: Callable[[str, str], bool] = lambda _client_id, _group: False

    def next_time(
        self, client: tuple[str, str], popped_at_ms: int, failures: int, now_ms: int
    ) -> tuple[int, bool]:
        """Return until when a message is renewed, 0 when it is not; and whether it may be once more."""
        client_id, group = client
        age_ms = max(now_ms - popped_at_ms, 0)
        if not self.is_there(client_id, group):
            if self._clock.monotonic() - self._started_at >= _SHOW_UP_S:
                return 0, False
            return now_ms + _LOOK_AGAIN_MS, True
        if age_ms >= AGE_MAX_MS:
            return now_ms + self._delay_ms(group, failures), False
        return now_ms + _step_ms(age_ms), True

    def _delay_ms(self, group: str, failures: int) -> int:
        config = self._groups.configs.get(group)
        policy = DEFAULT_RETRY_POLICY if config is None else config.retry_policy
        return max(policy.delay_ms(failures), _DELAY_MS_MIN)


def _step_ms(age_ms: int) -> int:
    """Return how long the next renewal of a message of an age lasts."""
    until_ms = _MINUTE_MS
    for step_ms in _STEPS_MS:
        until_ms += step_ms
        if age_ms < until_ms:
            return step_ms
    return _STEPS_MS[-1]
