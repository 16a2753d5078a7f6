"""The state of one started client: settings, name servers, known routes, identity."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyromq.client.consumer.broadcast_offsets import LocalOffsets, offsets_file
from pyromq.client.hooks import SendHook
from pyromq.client.identity import ClientIdentity, new_identity
from pyromq.client.name_servers import NameServers
from pyromq.client.namespaces import wrap
from pyromq.client.producer.fault_tolerance import Faults, Latencies
from pyromq.client.producer.queue_choice import RoundRobin
from pyromq.client.route_cache import RouteCache
from pyromq.client.steps import Deadline
from pyromq.clock import Clock, SystemClock
from pyromq.config.settings import ClientSettings, NetSettings
from pyromq.errors import Refused
from pyromq.model import MessageQueue
from pyromq.net.discovery import FIRST_REFRESH_MS


@dataclass(slots=True)
class Session:
    """The state that the plans of one client share.

    `group` is the name on the wire, with its namespace; an admin client has none.
    """

    group: str
    settings: ClientSettings
    name_servers: NameServers
    clock: Clock
    identity: ClientIdentity
    routes: RouteCache
    _turns: dict[str, RoundRobin] = field(default_factory=dict)
    #: The broker id that a queue's last answer told to read from next.
    reading_from: dict[MessageQueue, int] = field(default_factory=dict)
    send_hooks: tuple[SendHook, ...] = ()
    #: Where a broadcasting pull consumer remembers how far it got; for others brokers do.
    local: LocalOffsets | None = None
    #: What the headers of sends to a queue have in common, in the order of the wire.
    send_fields: dict[tuple[str, str, int, bool], dict[str, str]] = field(default_factory=dict)
    #: Masters that were sent a heartbeat since they are known, and reply topics that were looked for.
    greeted: set[str] = field(default_factory=set)
    #: Brokers that let a message wait for its time.
    knows_timers: set[str] = field(default_factory=set)
    #: What brokers say of members of the group that subscribe differently, by their addresses.
    conflicts: dict[str, str] = field(default_factory=dict)
    #: Why brokers do not take this consumer into its group, by their addresses: access control says no.
    denials: dict[str, Refused] = field(default_factory=dict)
    #: When to ask again which name servers there are, where an HTTP address tells it.
    name_servers_due_ms: int = field(init=False)
    faults: Faults = field(init=False)
    latencies: Latencies = field(init=False)

    def __post_init__(self) -> None:
        self.name_servers_due_ms = self.clock.now_ms() + FIRST_REFRESH_MS
        self.faults = Faults(self.clock)
        self.latencies = Latencies(self.clock)

    @property
    def subscription_conflict(self) -> str | None:
        """The brokers' report of members that subscribe differently; None: nothing."""
        return "; ".join(sorted(set(self.conflicts.values()))) or None

    def turn(self, topic: str) -> RoundRobin:
        """Return whose turn it is among a topic's queues; each thread has its own."""
        turn = self._turns.get(topic)
        return turn if turn is not None else self._turns.setdefault(topic, RoundRobin())

    def deadline(self, timeout_ms: int | None, default_ms: int) -> Deadline:
        """Start a call's time budget."""
        return Deadline(self.clock, default_ms if timeout_ms is None else timeout_ms)

    def next_message_id(self) -> str:
        """Return a new unique id for a message."""
        return self.identity.unique_ids.next(self.clock.now_ms())


def new_session(
    group: str,
    addresses: tuple[str, ...],
    settings: ClientSettings,
    *,
    send_hooks: Sequence[SendHook] = (),
    keeps_instance: bool = False,
    local: LocalOffsets | None = None,
) -> Session:
    """Return a session that knows nothing yet but whom to ask, and what a local file says."""
    clock = SystemClock()
    if local is not None:
        local.load()
    return Session(
        group=wrap(settings.namespace, group),
        settings=settings,
        name_servers=NameServers(addresses),
        clock=clock,
        identity=new_identity(settings, keeps_instance=keeps_instance or local is not None),
        routes=RouteCache(clock),
        send_hooks=tuple(send_hooks),
        local=local,
    )


def new_local_offsets(group: str, settings: ClientSettings) -> LocalOffsets:
    """Return where a broadcasting consumer of this process remembers how far it got; nothing is read yet."""
    client_id = new_identity(settings, keeps_instance=True).client_id
    return LocalOffsets(offsets_file(settings, client_id, wrap(settings.namespace, group)))


def net_settings(settings: ClientSettings) -> NetSettings:
    """Return the part of a client's settings that its connections need."""
    return NetSettings(
        connect_timeout_millis=settings.connect_timeout_millis,
        use_tls=settings.use_tls,
        tls_client_auth_server=settings.tls_client_auth_server,
        tls_client_trust_cert_path=settings.tls_client_trust_cert_path,
        tls_client_cert_path=settings.tls_client_cert_path,
        tls_client_key_path=settings.tls_client_key_path,
        tls_client_key_password=settings.tls_client_key_password,
    )
