"""For production: what is open that should not be, and what nobody could see."""

from collections.abc import Callable, Iterator

from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.doctor.checks.address_check import is_loopback
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.start_commands import is_ours
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import lines, some_of


def _which(survey: Survey, is_so: Callable[[BrokerSnapshot], bool]) -> list[BrokerSnapshot]:
    return [broker for broker in survey.brokers if broker.settings and is_so(broker)]


def _about(brokers: list[BrokerSnapshot]) -> str:
    return brokers[0].name if len(brokers) == 1 else f"{len(brokers)} brokers"


def _named(brokers: list[BrokerSnapshot]) -> str:
    return some_of([broker.name for broker in brokers])


def _facts(brokers: list[BrokerSnapshot]) -> dict[str, object]:
    return {"brokers": [broker.name for broker in brokers]}


def auto_create(survey: Survey) -> Iterator[Finding]:
    """Find brokers where a mistyped name makes a topic or a group."""
    for key, what, first in (
        ("autoCreateTopicEnable", "topic", "send"),
        ("autoCreateSubscriptionGroup", "group", "member"),
    ):
        found = _which(survey, lambda broker, key=key: broker.settings.get(key) == "true")  # type: ignore[misc]
        if found:
            yield Finding(
                Severity.WARNING if what == "topic" else Severity.NOTE,
                _about(found),
                f"{_named(found)} {'makes' if len(found) == 1 else 'make'} a {what} at its first {first} "
                f"({key}=true)",
                "a mistyped name is no error: messages go where nobody reads; the topic is on one broker"
                if what == "topic"
                else "a mistyped name is no error: a group of its own begins, with progress of its own",
                lines(
                    f"create the {what}s that are needed, then let brokers refuse others:",
                    f"pyromq cluster set {key} false{survey.at}",
                    "and in the settings files, for the next start",
                ),
                {**_facts(found), "setting": key},
            )


def access(survey: Survey) -> Iterator[Finding]:
    """Find brokers that other machines reach, and that ask nobody who he is or encrypt nothing."""
    reached = _which(survey, lambda broker: not is_loopback(broker.address))
    free = [one for one in reached if one.settings.get("aclEnable") == "false"]
    if free:
        yield Finding(
            Severity.WARNING,
            _about(free),
            f"{_named(free)} can be reached from other machines and "
            f"{'has' if len(free) == 1 else 'have'} no access control (aclEnable=false)",
            "whoever reaches the port reads every message, deletes topics and changes settings",
            "let accounts in only: docs/howto/security.md; until then let a firewall keep others away",
            _facts(free),
        )
    plain = [one for one in reached if is_ours(one.settings) and not one.settings.get("tlsServerCertPath")]
    if plain:
        yield Finding(
            Severity.WARNING,
            _about(plain),
            f"{_named(plain)} can be reached from other machines and "
            f"{'speaks' if len(plain) == 1 else 'speak'} no TLS (tlsServerCertPath is empty)",
            "messages, and signatures of accounts, can be read and changed on their way",
            "give them a certificate: docs/howto/security.md",
            _facts(plain),
        )


def advertised(survey: Survey) -> Iterator[Finding]:
    """Find brokers that tell clients an address of their own machine."""
    found = [broker for broker in survey.brokers if is_loopback(broker.address)]
    if found:
        yield Finding(
            Severity.WARNING,
            _about(found),
            f"{_named(found)} {'tells' if len(found) == 1 else 'tell'} clients "
            f"{some_of(sorted({broker.address for broker in found}))}, which only this machine reaches",
            "it is the address of a trial: a client on another machine finds the broker and cannot connect",
            "put 0.0.0.0 into bindAddress (of Apache's brokers nothing) and the machine's address into "
            "brokerIP1 of the settings file, and restart it",
            _facts(found),
        )


def metrics(survey: Survey) -> Iterator[Finding]:
    """Find brokers of ours that nobody can watch."""
    found = _which(survey, lambda broker: broker.settings.get("metricsExporterType") == "DISABLE")
    if found:
        yield Finding(
            Severity.WARNING,
            _about(found),
            f"no metrics of {_named(found)} are served (metricsExporterType=DISABLE)",
            "nobody is told when its disk fills, a slave falls behind or a group stands still",
            "put metricsExporterType=PROM into the settings file and restart it: docs/howto/observe.md",
            _facts(found),
        )


def unseen(survey: Survey) -> Iterator[str]:
    """Yield what production needs and no broker of Apache's says, as sentences of what could not be done."""
    foreign = [broker for broker in survey.brokers if broker.settings and not is_ours(broker.settings)]
    if foreign:
        names = _named(foreign)
        yield (
            f"see whether {names} {'speaks' if len(foreign) == 1 else 'speak'} TLS: Apache's brokers have it "
            "as properties of the process, which they do not tell"
        )
        yield (
            f"see whether {names} {'is' if len(foreign) == 1 else 'are'} watched: Apache's brokers of 4.9 "
            "have no metrics of their own"
        )


AUTO_CREATE = Check("auto-create", "for production: names that are made when mistyped", auto_create)
ACCESS = Check("access", "for production: brokers without access control or TLS on the network", access)
ADVERTISED = Check("advertised", "for production: addresses that only one machine reaches", advertised)
METRICS = Check("metrics", "for production: brokers that nobody can watch", metrics)
