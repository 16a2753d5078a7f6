"""A view of the ids of messages."""

from datetime import datetime
from ipaddress import ip_address

from pyromq.cli.views.listing import Listing
from pyromq.wire.message_id import parse_offset_message_id

#: From the end: counter, milliseconds since the month began, loader's hash, process id.
_COUNTER, _TIME, _HASH, _PID = 2, 4, 4, 2


def decoded(message_id: str) -> Listing:
    """Decode an id as a broker's and as a producer's: both look the same."""
    place = parse_offset_message_id(message_id)
    packed = bytes.fromhex(message_id)
    address, rest = packed[: -_COUNTER - _TIME - _HASH - _PID], packed[-_COUNTER - _TIME - _HASH - _PID :]
    since_ms = int.from_bytes(rest[_PID + _HASH : _PID + _HASH + _TIME], "big")
    record = {
        "id": message_id,
        "as_place": {"host": place.host, "port": place.port, "position": place.position},
        "as_unique": {
            "address": str(ip_address(address)),
            "pid": int.from_bytes(rest[:_PID], "big"),
            "made_at": _made_at(since_ms),
            "counter": int.from_bytes(rest[-_COUNTER:], "big"),
        },
    }
    unique = record["as_unique"]
    notes = [
        f"{message_id}",
        f"  from a broker:   {place.host}:{place.port}, position {place.position} of its log",
        f"  from a producer: address {unique['address']}, process {unique['pid']}, "  # type: ignore[index]
        f"made {unique['made_at']}, number {unique['counter']}",  # type: ignore[index]
    ]
    return Listing((), [record], notes)


def _made_at(since_ms: int) -> str | None:
    """Return the moment so long after the month's start, this or last month's; ids have no month."""
    now = datetime.now()
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    at_s = month.timestamp() + since_ms / 1_000
    if at_s > now.timestamp() + 1:
        before = month.replace(year=month.year - (month.month == 1), month=(month.month - 2) % 12 + 1)
        at_s = before.timestamp() + since_ms / 1_000
    try:
        return datetime.fromtimestamp(at_s).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return None
