"""Admission: a batch takes part of the waiting messages, shared among the queues by how much each has."""

from collections.abc import Mapping

from pyromq.model import MessageQueue


def share(waiting: Mapping[MessageQueue, int], most: int) -> dict[MessageQueue, int]:
    """Return how many messages of each queue a batch of at most `most` has, at least one of each if it can.

    A queue that is far behind gets more, and none is left waiting for ever.
    """
    behind = {queue: count for queue, count in waiting.items() if count > 0}
    total = sum(behind.values())
    if total <= most:
        return behind
    # The longest first: when there are more queues than messages, they get them.
    order = sorted(behind, key=lambda queue: (-behind[queue], queue))
    shares = dict.fromkeys(order[:most], 1)
    left = most - len(shares)
    for queue in shares:
        more = min(behind[queue] - 1, left * (behind[queue] - 1) // max(total - len(behind), 1))
        shares[queue] += more
    rest = most - sum(shares.values())
    for queue in shares:
        more = min(rest, behind[queue] - shares[queue])
        shares[queue] += more
        rest -= more
    return shares


def share_bytes(
    waiting: Mapping[MessageQueue, int], sizes: Mapping[MessageQueue, float], most: int
) -> dict[MessageQueue, int]:
    """Return the same for a batch of about `most` bytes, by the mean size of a message in each queue."""
    mean = {queue: max(sizes.get(queue, 0.0), 1.0) for queue in waiting}
    total = sum(count * mean[queue] for queue, count in waiting.items())
    part = min(1.0, most / total) if total else 1.0
    return {queue: max(1, int(count * part)) for queue, count in waiting.items() if count > 0}
