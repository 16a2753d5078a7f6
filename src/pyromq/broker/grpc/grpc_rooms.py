"""The rooms of a broker that its gRPC services need, and what they share with them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq.broker.delivery.arrivals import Arrivals
from pyromq.broker.delivery.sql_filters import FilterTable
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.kinds.half_messages import HalfMessages
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.requests.handlers.presence_handlers import PresenceHandlers
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.broker.surroundings import Surroundings
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.settings import BrokerProcess
from pyromq.net.turn import Turn
from pyromq.store.store import MessageStore

if TYPE_CHECKING:
    from pyromq.broker.access.control import AccessControl


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcRooms:
    """The rooms of one broker; `folder` is where the certificate is kept."""

    settings: BrokerProcess
    clock: Clock
    turn: Turn
    live: BrokerLiveSettings
    folder: Path
    table: BrokerTable
    store: MessageStore
    topics: TopicTable
    groups: Groups
    presence: PresenceHandlers
    filters: FilterTable
    arrivals: Arrivals
    pop: Pop
    #: Told of messages that were read: group, topic, how many, and their bytes.
    on_read: Callable[[str, str, int, int], None]
    halves: HalfMessages
    access: "AccessControl | None"
    write: WritePath
    surroundings: Surroundings
