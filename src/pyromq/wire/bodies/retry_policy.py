"""The retry policy of a group, of RocketMQ 5: how long a message waits before it is delivered once more.

{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}}
{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2}}
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from pyromq.wire.bodies.body import Body, read_body

_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
#: The list of a group that has none: 1 s, 5 s, 10 s, 30 s, 1 to 10 min, 20 and 30 min, 1 and 2 h.
DEFAULT_DELAYS_MS: Final = (
    1_000,
    5_000,
    10_000,
    30_000,
    *(minutes * _MINUTE for minutes in range(1, 11)),
    20 * _MINUTE,
    30 * _MINUTE,
    _HOUR,
    2 * _HOUR,
)
#: Later redeliveries have the delay of this one.
_EXPONENT_MAX: Final = 32
_DELAYS_MAX: Final = 128
_DELAY_MAX: Final = 2**53

Delay = Annotated[int, msgspec.Meta(ge=0, le=_DELAY_MAX)]


class RetryPolicyType(StrEnum):
    """The kind of a retry policy."""

    CUSTOMIZED = "CUSTOMIZED"
    EXPONENTIAL = "EXPONENTIAL"


class CustomizedRetryPolicy(Body, kw_only=True, frozen=True):
    """A list of delays in milliseconds."""

    next: Annotated[tuple[Delay, ...], msgspec.Meta(max_length=_DELAYS_MAX)] = DEFAULT_DELAYS_MS


class ExponentialRetryPolicy(Body, kw_only=True, frozen=True):
    """Delays in milliseconds, each a multiple of the one before, up to a limit."""

    initial: Delay = 5_000
    max: Delay = 2 * _HOUR
    multiplier: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 2


class GroupRetryPolicy(Body, kw_only=True, frozen=True):
    """A group's retry policy."""

    type: RetryPolicyType = RetryPolicyType.CUSTOMIZED
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None

    @property
    def exponential(self) -> ExponentialRetryPolicy | None:
        """The multiples, None where the policy is a list."""
        if self.type is not RetryPolicyType.EXPONENTIAL:
            return None
        return self.exponential_retry_policy or ExponentialRetryPolicy()

    @property
    def delays_ms(self) -> tuple[int, ...]:
        """The list of delays; the default one where the policy has none."""
        policy = self.customized_retry_policy
        return DEFAULT_DELAYS_MS if policy is None or not policy.next else policy.next

    def delay_ms(self, reconsume_times: int) -> int:
        """Return how long the broker waits after so many redeliveries, as Apache's broker does.

        Of a list it skips the first two delays: those are for clients, which fail sooner.
        """
        exponential = self.exponential
        if exponential is not None:
            times = min(max(reconsume_times, 0), _EXPONENT_MAX)
            return min(exponential.max, exponential.initial * int(exponential.multiplier**times))
        delays = self.delays_ms
        return delays[min(max(reconsume_times, 0) + 2, len(delays) - 1)]


DEFAULT_RETRY_POLICY: Final = GroupRetryPolicy()


def decode_retry_policy(data: bytes) -> GroupRetryPolicy:
    """Return the policy that JSON says."""
    return read_body(GroupRetryPolicy, data)
