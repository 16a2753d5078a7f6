"""The share of a member of a group in a topic's queues, for clients that ask the broker for it (400).

PULL  its share by the strategy
POP   all brokers' queues at once (−1), or its share and those of the next members in the order of ids
"""

from collections.abc import Callable, Sequence
from typing import Final

from pyromq.config.choices import MessageRequestMode
from pyromq.model import MessageQueue
from pyromq.queue_shares import block, dealt
from pyromq.wire.bodies.request_mode_bodies import RequestModeSetting

#: The queue id that means all queues of a topic on a broker.
ALL_QUEUES: Final = -1

Share = Callable[[Sequence[MessageQueue], int, int], list[MessageQueue]]
STRATEGIES: Final[dict[str, Share]] = {"AVG": block, "AVG_BY_CIRCLE": dealt}


def assigned(
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    client_id: str,
    *,
    strategy: str,
    setting: RequestModeSetting,
) -> list[MessageQueue] | None:
    """Return a member's queues, None for a strategy that is unknown; one that is no member gets none."""
    share = STRATEGIES.get(strategy)
    if share is None:
        return None
    members, everything = sorted(client_ids), sorted(queues)
    shared = setting.pop_share_queue_num
    is_pop = setting.mode is MessageRequestMode.POP
    if is_pop and (shared <= 0 or shared >= len(members) - 1):
        return [
            MessageQueue(topic, broker, ALL_QUEUES)
            for topic, broker in dict.fromkeys((queue.topic, queue.broker_name) for queue in everything)
        ]
    if client_id not in members or not everything:
        return []
    index = members.index(client_id)
    if not is_pop:
        return share(everything, index, len(members))
    if len(members) > len(everything):
        return [everything[index % len(everything)]]
    whose = [(index + further) % len(members) for further in range(shared + 1)]
    return sorted({queue for one in whose for queue in share(everything, one, len(members))})
