"""The servers that an operator means, and the way each is asked.

A broker is named by its address, or many by their cluster; without either all are meant. A server that does
not answer must not hide what the others say, so what each said comes back beside its address.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyromq.client.client_session import Session
from pyromq.client.plans.admin.scaling_plans import ServerReply
from pyromq.client.plans.route_plans import cluster
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Deadline, Plan, ask, ask_all, must_succeed
from pyromq.errors import ConfigError, NetworkError, NoRoute, ProtocolError, PyroError, Refused
from pyromq.wire.bodies.route_bodies import BrokerData, TopicRoute
from pyromq.wire.command import Command

#: A command is made anew for each server: whoever sends it writes into it.
MakeCommand = Callable[[], Command]
#: Commands that are on their way to one broker at a time.
LOT = 256


@dataclass(frozen=True, slots=True, order=True)
class BrokerPlace:
    """A broker process: the master (id 0) or a slave of a broker's name."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        """Whether it is the master."""
        return self.broker_id == MASTER_ID


@dataclass(slots=True)
class Silence:
    """Brokers that did not say what they were asked in one look, and why.

    Who did not answer at all is not asked again: a look at a thousand topics waits for a broker that hangs
    once, and not a thousand times.
    """

    why: dict[BrokerPlace, str] = field(default_factory=dict)
    _gone: dict[BrokerPlace, NetworkError] = field(default_factory=dict)

    def note(self, place: BrokerPlace, error: PyroError) -> None:
        """Remember that a broker did not say something."""
        self.why.setdefault(place, str(error))
        if isinstance(error, NetworkError):
            self._gone[place] = error

    def of_gone(self, place: BrokerPlace) -> NetworkError | None:
        """Return why a broker did not answer before; None: it has to be asked."""
        return self._gone.get(place)


def places(
    session: Session,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
    with_slaves: bool = False,
) -> Plan[list[BrokerPlace]]:
    """Return the brokers that are meant, in order; raise NoRoute, which says which there are, for none.

    An address is believed even if no name server knows it, but not that of a name server.
    """
    if address is not None and address in session.name_servers.addresses:
        raise ConfigError(f"{address} is a name server; brokers and their addresses: pyromq cluster list")
    table = yield from cluster(session, deadline)
    known = sorted(
        BrokerPlace(broker.cluster, broker.broker_name, broker_id, at)
        for broker in table.broker_addr_table.values()
        for broker_id, at in broker.broker_addrs.items()
    )
    if address is not None:
        return [place for place in known if place.address == address] or [
            BrokerPlace("", address, MASTER_ID, address)
        ]
    found = [
        place for place in known if cluster_name in (None, place.cluster) and (with_slaves or place.is_master)
    ]
    if not found:
        clusters = ", ".join(sorted({place.cluster for place in known})) or "none"
        what = "cluster has a broker" if cluster_name is None else f"cluster {cluster_name!r} has a broker"
        raise NoRoute(f"no {what} at name servers {session.name_servers}; clusters there: {clusters}")
    return found


def places_of(route: TopicRoute) -> list[BrokerPlace]:
    """Return a broker process for each broker of a topic: the master, or a slave where there is none."""
    return sorted(
        BrokerPlace(broker.cluster, broker.broker_name, *best_address(broker))
        for broker in route.broker_datas
        if broker.broker_addrs
    )


def best_address(broker: BrokerData) -> tuple[int, str]:
    """Return id and address of a broker's master, or of a slave when there is no master."""
    broker_id = min(broker.broker_addrs)
    return broker_id, broker.broker_addrs[broker_id]


def timeout_s(session: Session) -> float:
    """Seconds for one question."""
    return session.settings.mq_client_api_timeout / 1_000


def tell_each(session: Session, addresses: Sequence[str], make: MakeCommand) -> Plan[list[ServerReply]]:
    """Tell servers something one by one, and return what each said."""
    told = []
    for address in addresses:
        try:
            must_succeed((yield from ask(address, make(), timeout_s(session))))
            told.append(ServerReply(address))
        except (NetworkError, Refused, ProtocolError) as error:
            told.append(ServerReply(address, failure=str(error)))
    return told


def ask_each(
    session: Session, asked: Sequence[BrokerPlace], make: MakeCommand, silence: Silence | None = None
) -> Plan[dict[BrokerPlace, Command]]:
    """Ask brokers the same one by one, and return what each that succeeds answers.

    The first failure is raised; with `silence` it is noted there, and raised only when nobody succeeds.
    """
    answers: dict[BrokerPlace, Command] = {}
    failure: NetworkError | Refused | None = None
    for place in asked:
        try:
            if silence is not None and (before := silence.of_gone(place)) is not None:
                raise before
            answers[place] = must_succeed((yield from ask(place.address, make(), timeout_s(session))))
        except (NetworkError, Refused) as error:
            if silence is None:
                raise
            silence.note(place, error)
            failure = error
    if failure is not None and not answers:
        raise failure
    return answers


def ask_lots(session: Session, address: str, commands: Sequence[Command]) -> Plan[list[Command]]:
    """Ask a broker many things, some of them on their way at a time, and return the answers in order."""
    answers: list[Command] = []
    for at in range(0, len(commands), LOT):
        answers += yield from ask_all(address, commands[at : at + LOT], timeout_s(session) * 3)
    return answers
