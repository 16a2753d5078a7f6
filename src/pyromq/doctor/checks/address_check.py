"""Name servers that are silent or disagree, and addresses that clients are sent to in vain."""

import ipaddress
import shlex
from collections.abc import Iterator, Sequence

from pyromq.client.observation.snapshot import BrokerSnapshot, NameServerSnapshot
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import both, counted, lines, some_of
from pyromq.errors import ConnectFailed
from pyromq.net.address import split_address


def name_servers(survey: Survey) -> Iterator[Finding]:
    """Find name servers that do not answer, and those that know other brokers than the rest."""
    for seen in survey.name_servers:
        if seen.error is not None:
            yield _silent(seen)
    answering = [seen for seen in survey.name_servers if seen.table is not None]
    for name in sorted({broker.broker_name for broker in survey.brokers}):
        told = {seen.address: seen.addresses(name) for seen in answering}
        if len({tuple(sorted(addresses.items())) for addresses in told.values()}) > 1:
            yield _disputed(name, told)


def addresses(survey: Survey) -> Iterator[Finding]:
    """Find brokers that cannot be reached where the name servers send clients."""
    if not survey.brokers:
        yield _nobody(survey)
    for broker in survey.brokers:
        if broker.is_unreachable:
            yield _unreachable(broker)
        elif broker.failure is not None:
            yield _refusing(broker)
        elif is_mistaken(broker):
            yield _mistaken(broker)
    # An address that nobody reaches says nothing about where the cluster is.
    places = [seen.address for seen in survey.name_servers if seen.error is None]
    places += [broker.address for broker in survey.brokers if broker.failure is None]
    elsewhere = [address for address in places if not is_loopback(address)]
    here = [broker for broker in survey.brokers if is_loopback(broker.address)]
    if here and elsewhere:
        yield _here_only(here, elsewhere[0])


def is_loopback(address: str) -> bool:
    """Whether an address leads each machine to itself, as 127.0.0.1 does, and 0.0.0.0 mostly."""
    try:
        host, _ = split_address(address)
    except ConnectFailed:
        return False
    if host == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    return ip.is_loopback or ip.is_unspecified


def is_mistaken(broker: BrokerSnapshot) -> bool:
    """Whether somebody else answers at a broker's address."""
    name = broker.settings.get("brokerName")
    return bool(name) and name != broker.broker_name


#: What to do about a server that is there, and with which TLS fails; the failure itself says more.
_TLS_STEPS = lines(
    "it runs, and TLS with it fails from here, as it may for clients; its log says what it saw",
    "commands, the doctor too, use TLS as PYROMQ_USE_TLS, PYROMQ_TLS_CLIENT_AUTH_SERVER and "
    "PYROMQ_TLS_CLIENT_TRUST_CERT_PATH say; clients as their settings say",
    "certificates that are expired, or of an authority that clients do not trust, are renewed in "
    "tlsServerCertPath and tlsServerKeyPath of its settings file; restart it then",
)


def _silent(seen: NameServerSnapshot) -> Finding:
    port = seen.address.rpartition(":")[2]
    return Finding(
        Severity.WARNING,
        f"name server {seen.address}",
        f"name server {seen.address} does not answer: {seen.error}",
        "clients go on with the other name servers; each loses time when it asks this one, and there is one "
        "less to fail",
        _TLS_STEPS
        if seen.lacks_tls
        else lines(
            "start it on its machine:",
            f"pyromq namesrv --port {port}" + ("" if is_loopback(seen.address) else " --listen 0.0.0.0"),
            "or take its address out of NAMESRV_ADDR of clients and namesrvAddr of brokers",
        ),
        {"address": seen.address, "failure": str(seen.error)},
    )


def _disputed(name: str, told: dict[str, dict[int, str]]) -> Finding:
    said = [
        f"{address} says {both(sorted(places.values()))}" if places else f"{address} does not know it"
        for address, places in told.items()
    ]
    return Finding(
        Severity.PROBLEM,
        name,
        f"name servers disagree about {name}: {'; '.join(said)}",
        "which brokers a client finds depends on the name server it happens to ask",
        lines(
            "every broker must register with every name server: compare namesrvAddr in",
            f"pyromq cluster settings -n {next(iter(told))}",
            "a broker that began just now is with all of them within 30 seconds",
        ),
        {
            "broker": name,
            "told": {address: {str(at): to for at, to in places.items()} for address, places in told.items()},
        },
    )


def _nobody(survey: Survey) -> Finding:
    return Finding(
        Severity.PROBLEM,
        "the cluster",
        f"no broker is known to {both([seen.address for seen in survey.name_servers])}",
        "nobody can send or read anything",
        lines(
            "start one, or see whether those that run have these name servers:",
            f"pyromq broker -n {shlex.quote(';'.join(seen.address for seen in survey.name_servers))}",
        ),
        {"name_servers": [seen.address for seen in survey.name_servers]},
    )


def _unreachable(broker: BrokerSnapshot) -> Finding:
    role = "master" if broker.is_master else f"slave {broker.broker_id}"
    why = (
        "clients are sent to this address, and wait there in vain: sends and reads of its queues fail"
        if broker.is_master
        else "consumers are sent here when the master is busy or gone, and nobody copies its messages"
    )
    steps = (
        "it takes connections: is its process stopped, its machine overloaded, or its disk so slow? its log "
        "and those of its machine say more; if nothing helps, restart it"
        if broker.is_connected
        else lines(
            "is it running? one whose machine is gone is forgotten after two minutes",
            "if it runs: have it tell clients an address that they reach: put that address into brokerIP1 of "
            "its settings file, or add --advertise with it to the command that starts it, and restart it",
            "and open its port, in firewalls and containers, under the same number",
        )
    )
    if broker.lacks_tls:
        steps = _TLS_STEPS
    how = "does not answer" if broker.is_connected else "cannot be reached"
    failure = broker.failure or ""
    return Finding(
        Severity.PROBLEM if broker.is_master else Severity.WARNING,
        broker.name,
        f"{broker.broker_name} ({role}) {how} where the name servers say that it is: "
        + (failure if broker.address in failure else f"{broker.address}: {failure}"),
        why,
        steps,
        _facts(broker),
    )


def _refusing(broker: BrokerSnapshot) -> Finding:
    return Finding(
        Severity.WARNING,
        broker.name,
        f"{broker.name} at {broker.address} does not say how it is: {broker.failure}",
        "the doctor cannot look at it; clients may be refused as well",
        "if it has access control, give the doctor an account that is admin: PYROMQ_ACCESS_KEY and "
        "PYROMQ_SECRET_KEY; else look again in a moment: it may be about to change its role",
        _facts(broker),
    )


def _mistaken(broker: BrokerSnapshot) -> Finding:
    name = broker.settings["brokerName"]
    return Finding(
        Severity.PROBLEM,
        broker.name,
        f"at {broker.address}, where the name servers say that {broker.name} is, answers {name}",
        f"messages for {broker.name} reach {name}, and those that it has cannot be read",
        f"have {broker.name} tell clients its own address: put its address into brokerIP1 and a port of its "
        "own into listenPort of its settings file, or add --advertise and --port with them to the command "
        "that starts it, and restart it",
        {**_facts(broker), "answers": name},
    )


def _here_only(brokers: Sequence[BrokerSnapshot], elsewhere: str) -> Finding:
    shown = [f"{broker.name} ({broker.address})" for broker in brokers]
    is_one = len(brokers) == 1
    names = list(dict.fromkeys(broker.broker_name for broker in brokers))
    return Finding(
        Severity.WARNING,
        brokers[0].name if is_one else counted(len(brokers), "broker"),
        f"{some_of(shown)} {'tells' if is_one else 'tell'} clients an address that leads every machine to "
        f"itself, while {elsewhere} is on the network",
        "clients on other machines get this address from the name server and cannot connect to the broker",
        f"have {some_of(names)} listen for other machines and tell clients the machine's address: put "
        "0.0.0.0 into bindAddress and the address into brokerIP1 of the settings file, or add --listen "
        "0.0.0.0 and --advertise with the address to the command that starts it, and restart it",
        {"brokers": [_facts(broker) for broker in brokers], "elsewhere": elsewhere},
    )


def _facts(broker: BrokerSnapshot) -> dict[str, object]:
    return {
        "broker": broker.broker_name,
        "id": broker.broker_id,
        "address": broker.address,
        "failure": broker.failure,
    }


NAME_SERVERS = Check("name-servers", "name servers that are silent, or disagree about brokers", name_servers)
ADDRESSES = Check("addresses", "brokers that cannot be reached where clients are sent", addresses)
