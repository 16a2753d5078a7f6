"""Times and durations of gRPC messages, in milliseconds."""

from pyromq.wire.grpc.grpc_messages import Duration, Timestamp

_MS_NANOS = 1_000_000


def timestamp_of(ms: int) -> Timestamp:
    """Return a time since 1970."""
    seconds, rest = divmod(ms, 1000)
    return Timestamp(seconds=seconds, nanos=rest * _MS_NANOS)


def duration_of(ms: int) -> Duration:
    """Return a length of time; the parts of one below zero have the same sign."""
    sign = -1 if ms < 0 else 1
    seconds, rest = divmod(abs(ms), 1000)
    return Duration(seconds=sign * seconds, nanos=sign * rest * _MS_NANOS)


def ms_of(time: Timestamp | Duration) -> int:
    """Return a time or a length of time; what is below a millisecond is cut off."""
    return time.seconds * 1000 + int(time.nanos / _MS_NANOS)
