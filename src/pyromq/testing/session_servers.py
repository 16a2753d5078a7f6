"""The servers of one pytest session: a broker that tests share, brokers of single tests, or real ones."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyromq.client.sync.admin import Admin
from pyromq.client.sync.dead_letters import DeadLetters
from pyromq.client.sync.producer import Producer
from pyromq.client.sync.pull_consumer import PullConsumer
from pyromq.clock import SystemClock
from pyromq.config.field import settings_of
from pyromq.config.load import GivenSetting, load, parts_of
from pyromq.config.settings import BrokerProcess
from pyromq.config.values import Value
from pyromq.errors import ConfigError, PyroError
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.quick_files import QuickFiles
from pyromq.testing.shifted_clock import ShiftedClock
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig

_TEN_YEARS_H: Final = 10 * 365 * 24
_TEN_YEARS_MS: Final = _TEN_YEARS_H * 3_600_000
#: Limits for a broker whose clock jumps: what its clients do takes no more of their time than before.
_AHEAD: Final[Mapping[str, Value]] = {
    "channel_expired_timeout": _TEN_YEARS_MS,
    "file_reserved_time": _TEN_YEARS_H,
    "server_channel_max_idle_time_seconds": _TEN_YEARS_H * 3_600,
    "wait_time_mills_in_send_queue": _TEN_YEARS_MS,
    "wait_time_mills_in_pull_queue": _TEN_YEARS_MS,
    "wait_time_mills_in_heartbeat_queue": _TEN_YEARS_MS,
    "wait_time_mills_in_transaction_queue": _TEN_YEARS_MS,
}
#: The group of the fixtures' own producer and of their pulls.
_TOOLS: Final = "pyromq-tests"
#: What a marker says besides settings.
_BROKERS: Final = "brokers"
_GRPC: Final = "grpc"


class NoSuchServer(Exception):
    """Tests were told of a name server that does not answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cluster of a test's own, as it is wanted: how many brokers, gRPC, and settings by our names."""

    brokers: int
    has_grpc: bool
    overrides: Mapping[str, Value]


class ClientsOfTests:
    """The clients by which fixtures send, read and clean up, connected when first used."""

    def __init__(self, name_server: str) -> None:
        self.name_server = name_server
        self._open = ExitStack()
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._reader: PullConsumer | None = None
        self._dead: DeadLetters | None = None

    @property
    def admin(self) -> Admin:
        """The client that makes topics and groups."""
        if self._admin is None:
            self._admin = self._open.enter_context(Admin(self.name_server))
        return self._admin

    @property
    def producer(self) -> Producer:
        """The client that sends."""
        if self._producer is None:
            self._producer = self._open.enter_context(Producer(_TOOLS, self.name_server))
        return self._producer

    @property
    def reader(self) -> PullConsumer:
        """The client that reads queues; a broker may want to know its group."""
        if self._reader is None:
            self.admin.update_group(SubscriptionGroupConfig(group_name=_TOOLS))
            self._reader = self._open.enter_context(PullConsumer(_TOOLS, self.name_server))
        return self._reader

    @property
    def dead(self) -> DeadLetters:
        """The client that reads dead letters."""
        if self._dead is None:
            self._dead = self._open.enter_context(DeadLetters(self.name_server))
        return self._dead

    def close(self) -> None:
        """End the connections."""
        self._open.close()


class ClusterOfTest:
    """The servers that a test uses.

    `is_own` says that no other test uses them, `clock` is their time if the test moves it.
    """

    def __init__(
        self,
        clients: ClientsOfTests,
        servers: ThreadCluster | None,
        *,
        is_own: bool = False,
        clock: ShiftedClock | None = None,
    ) -> None:
        self.clients = clients
        self.is_own = is_own
        self.clock = clock
        self._servers = servers
        self._stopped: list[str] = []

    @property
    def name_server(self) -> str:
        """The name server's address, `host:port`: what the code under test is told."""
        return self.clients.name_server

    @property
    def is_real(self) -> bool:
        """Whether these are servers that were there before, by `--pyromq-namesrv`."""
        return self._servers is None

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers that run: broker-a, broker-b, …"""
        return self._own("named").broker_names

    @property
    def broker_addresses(self) -> list[str]:
        """The addresses of the brokers that run, `host:port`."""
        return self._own("looked up").broker_addresses

    @property
    def grpc_addresses(self) -> list[str]:
        """The addresses for SDKs of RocketMQ 5, with `@pytest.mark.pyromq(grpc=True)`."""
        return self._own("looked up").grpc_addresses

    def stop_broker(self, name: str = "broker-a") -> None:
        """Stop a broker in order; its data stays, and it is started again at the test's end at the latest."""
        self._own("stopped").stop_broker(name)
        self._stopped.append(name)

    def start_broker(self, name: str = "broker-a") -> None:
        """Start a broker that was stopped, on its old data and its old port."""
        self._own("started").start_broker(name)
        self._stopped.remove(name)

    def catch_up(self, since: float) -> None:
        """Wait until brokers have done what is due, after their clock was moved to a monotonic time."""
        self._own("waited for").catch_up(since)

    def start_stopped(self) -> None:
        """Start the brokers that the test stopped."""
        for name in tuple(self._stopped):
            self.start_broker(name)

    def _own(self, what: str) -> ThreadCluster:
        if self._servers is None:
            raise NoSuchServer(
                f"the servers at {self.name_server} were there before (--pyromq-namesrv): their brokers are "
                f"not {what} by a test; skip this test where pyromq_cluster.is_real"
            )
        return self._servers


class SessionServers:
    """Starts what tests need, at most once for those that share, and ends it."""

    def __init__(self, given: Iterable[GivenSetting], real: str | None) -> None:
        self._given = tuple(given)
        self.real = real
        self._shared: ClusterOfTest | None = None
        self._closing = ExitStack()
        #: How often servers were started in this session.
        self.starts = 0

    def shared(self) -> ClusterOfTest:
        """Return the servers that tests share. Raises ConfigError, NoSuchServer."""
        if self._shared is None:
            if self.real is not None:
                self._shared = self._closing.enter_context(self._joined(self.real))
            else:
                self._shared = self._closing.enter_context(self._started(wanted_of(self._given)))
        return self._shared

    @contextmanager
    def own(self, marked: Mapping[str, object], *, moves_time: bool) -> Iterator[ClusterOfTest]:
        """Run servers for one test, with the settings of its marker. Raises ConfigError."""
        clock = ShiftedClock() if moves_time else None
        wanted = wanted_of(self._given, marked)
        with self._started(wanted, is_own=True, clock=clock) as cluster:
            yield cluster

    @contextmanager
    def _started(
        self, wanted: Wanted, *, is_own: bool = False, clock: ShiftedClock | None = None
    ) -> Iterator[ClusterOfTest]:
        overrides: dict[str, Any] = {**({} if clock is None else _AHEAD), **wanted.overrides}
        starting = running_cluster(
            wanted.brokers,
            clock=clock,
            # By a clock that jumps, brokers would fall silent.
            namesrv_clock=SystemClock(),
            files=QuickFiles(),
            has_grpc=wanted.has_grpc,
            **overrides,
        )
        with starting as servers:
            self.starts += 1
            clients = ClientsOfTests(servers.namesrv_address)
            try:
                yield ClusterOfTest(clients, servers, is_own=is_own, clock=clock)
            finally:
                clients.close()

    @contextmanager
    def _joined(self, address: str) -> Iterator[ClusterOfTest]:
        clients = ClientsOfTests(address)
        try:
            try:
                clients.admin.brokers()
            except PyroError as error:
                raise NoSuchServer(
                    f"--pyromq-namesrv {address}: no name server with a broker answers there: {error}"
                ) from error
            yield ClusterOfTest(clients, None)
        finally:
            clients.close()

    def close(self) -> None:
        """End what tests share."""
        self._closing.close()


def wanted_of(given: Iterable[GivenSetting], marked: Mapping[str, object] | None = None) -> Wanted:
    """Read settings of the session and of a marker; raise ConfigError for those that do not read."""
    more = dict(marked or {})
    brokers, has_grpc = more.pop(_BROKERS, 1), more.pop(_GRPC, False)
    if not isinstance(brokers, int) or isinstance(brokers, bool) or not 1 <= brokers <= 26:
        raise ConfigError(f"@pytest.mark.pyromq: brokers={brokers!r}: expected a number from 1 to 26")
    if not isinstance(has_grpc, bool):
        raise ConfigError(f"@pytest.mark.pyromq: grpc={has_grpc!r}: expected True or False")
    both = [*given, *_marked_settings(more)]
    loaded = load(BrokerProcess, both)
    for warning in loaded.warnings:
        warnings.warn(warning, stacklevel=2)
    values: dict[str, Value] = {}
    for field, owner in parts_of(BrokerProcess).items():
        part = getattr(loaded.process, field)
        for setting in settings_of(owner):
            if setting.name in loaded.sources:
                values.setdefault(setting.name, getattr(part, setting.name))
    return Wanted(brokers, has_grpc, values)


def _marked_settings(marked: Mapping[str, object]) -> Iterator[GivenSetting]:
    for name, value in marked.items():
        if not isinstance(value, str | int | bool):
            raise ConfigError(
                f"@pytest.mark.pyromq: {name}={value!r}: expected a text, a whole number, True or False"
            )
        yield GivenSetting(name, value, "@pytest.mark.pyromq")


def read_ini(lines: Iterable[str]) -> list[GivenSetting]:
    """Read the lines of `pyromq_settings`; raise ConfigError for one without `=`."""
    given = []
    for line in lines:
        key, separator, value = line.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"pyromq_settings: {line!r}: expected a line like autoCreateTopicEnable=false")
        given.append(GivenSetting(key.strip(), value.strip(), "pyromq_settings"))
    return given
