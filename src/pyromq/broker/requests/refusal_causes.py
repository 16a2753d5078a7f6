"""The causes for which a broker refuses clients, in one list.

Each is an episode: the log has one line when it begins and one when it ends (`episodes.py`). They are looked
at every second, and whenever a client was refused, so that nobody is refused without a line that says why.
"""

import logging

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.replication.role import Leading, Replicating
from pyromq.broker.requests.busy import Busy
from pyromq.broker.topics.intake import readable_time
from pyromq.clock import Clock
from pyromq.codes import Perm
from pyromq.config.settings import BrokerSettings
from pyromq.episodes import Episodes
from pyromq.store.store import MessageStore

#: Seconds between two looks.
LOOK_S = 1.0


def refusal_episodes(
    settings: BrokerSettings,
    clock: Clock,
    *,
    store: MessageStore,
    durability: Durability,
    busy: Busy,
    replicating: Replicating,
) -> Episodes:
    """Return the episodes of a broker; somebody has to `look` at them."""
    episodes = Episodes(clock, settings.broker_name)

    def ailing() -> str | None:
        # A store that knows of the failure says more about it.
        return store.ailment or durability.why_failed

    def too_early() -> str | None:
        start_ms = settings.start_accept_send_request_time_stamp
        if clock.now_ms() >= start_ms:
            return None
        return f"startAcceptSendRequestTimeStamp lets them in at {readable_time(start_ms)}"

    def forbidden(bit: Perm, who: str) -> str | None:
        if settings.broker_permission & bit:
            return None
        return (
            f"brokerPermission={settings.broker_permission} forbids it, and routes tell {who} to use other "
            "brokers; `pyromq cluster set brokerPermission 6` allows both"
        )

    episodes.watch("messages until a restart", ailing, level=logging.CRITICAL)
    episodes.watch("messages", lambda: store.why_full)
    episodes.watch("messages", too_early)
    episodes.watch("producers", lambda: forbidden(Perm.WRITE, "producers"))
    episodes.watch("consumers", lambda: forbidden(Perm.READ, "consumers"))
    episodes.watch("requests", lambda: busy.why)
    if isinstance(replicating, Leading):
        episodes.watch("all requests", lambda: durability.why_shut)
        episodes.watch("messages", lambda: durability.why_no_messages)
        episodes.watch("synchronous copies", lambda: replicating.why_alone)
    return episodes
