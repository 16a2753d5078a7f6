"""The delivery time of a message, as the property that tells it to the broker.

A `delay` travels as milliseconds that the broker adds to its own clock, so clocks that differ do not matter;
a `deliver_at` is compared with the broker's clock. The broker limits how far ahead it may be
(timerMaxDelaySec).
"""

import math
from datetime import datetime, timedelta
from typing import Final

from pyromq.codes import ResponseCode
from pyromq.errors import MessageIllegal
from pyromq.model import Message
from pyromq.wire import properties as names

#: March 1973 in milliseconds; what is below it was meant in seconds.
_MILLISECONDS_MIN: Final = 100_000_000_000
_INT64_MAX: Final = 2**63 - 1


def timer_property(message: Message) -> tuple[str, str] | None:
    """Return the name and value that let a message wait for its time, None for a message without one.

    Raises MessageIllegal for a time that is none, or for more than one.
    """
    if message.delay is None and message.deliver_at is None:
        return None
    if message.delay_level:
        raise _illegal("a message has a delay_level or a time, not both")
    if message.delay is None:
        return names.TIMER_DELIVER_MS, str(_moment_ms(message.deliver_at))
    if message.deliver_at is not None:
        raise _illegal("give delay, which counts from now, or deliver_at, which is a moment; not both")
    return names.TIMER_DELAY_MS, str(_span_ms(message.delay))


def _moment_ms(at: datetime | int | None) -> int:
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise _illegal(
                f"deliver_at {at.isoformat(' ')} has no time zone, so which moment it is depends on the "
                "machine; give it one, as datetime.now(UTC) has; .astimezone() takes it for local time"
            )
        return round(at.timestamp() * 1_000)
    if isinstance(at, bool) or not isinstance(at, int):
        raise _illegal(f"deliver_at is a datetime or milliseconds since 1970, not {type(at).__name__} {at!r}")
    if not 0 <= at <= _INT64_MAX:
        raise _illegal(f"deliver_at {at} is no time; it counts milliseconds since 1970")
    if at < _MILLISECONDS_MIN:
        raise _illegal(f"deliver_at {at} is long past: it counts milliseconds since 1970, not seconds")
    return at


def _span_ms(delay: timedelta | float) -> int:
    if isinstance(delay, timedelta):
        seconds = delay.total_seconds()
    elif isinstance(delay, int | float) and not isinstance(delay, bool):
        seconds = delay
    else:
        raise _illegal(f"delay is a timedelta or seconds, not {type(delay).__name__} {delay!r}")
    if not math.isfinite(seconds) or seconds * 1_000 > _INT64_MAX:
        raise _illegal(f"delay {delay!r} is no time that ends")
    if seconds < 0:
        raise _illegal(f"delay {delay!r} is negative; without a delay a message is delivered at once")
    return round(seconds * 1_000)


def _illegal(text: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, text)
