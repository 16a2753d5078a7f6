"""Brokers and topics that may not be written or read.

A broker's permission is a setting of its own (brokerPermission); and a name server may have been told to take
the write permission of all its topics away (wipeWritePerm), of which the broker knows nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyromq.codes import Perm
from pyromq.doctor.checks.check import Check
from pyromq.doctor.checks.topics import Cure, facts_of, named, parts, remedy, subject_of
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import BrokerSeen, Survey
from pyromq.doctor.words import both
from pyromq.wire.bodies.topics import TopicConfig

_BOTH: Final = Perm.READ | Perm.WRITE
_WORDS: Final = {Perm.READ: "read", Perm.WRITE: "written"}
_DOES: Final = {Perm.READ: "read from", Perm.WRITE: "send to"}


def permissions(survey: Survey) -> Iterator[Finding]:
    """Find what may not be written or read."""
    for broker in survey.masters:
        allowed = broker.settings.get("brokerPermission", "")
        if allowed.isdecimal() and int(allowed) & _BOTH != _BOTH:
            yield _closed_broker(survey, broker, int(allowed))
        else:
            yield from _wiped(survey, broker)
    found: defaultdict[tuple[Perm, bool, tuple[str, ...]], list[Cure]] = defaultdict(list)
    for name, configs in survey.users_topics.items():
        for perm in _WORDS:
            closed = tuple(sorted(broker for broker, config in configs.items() if not config.perm & perm))
            if closed:
                found[perm, len(closed) == len(configs), closed].append(_opened(survey, name, configs))
    for (perm, is_everywhere, closed), cures in found.items():
        for part in parts(cures):
            yield _closed_topics(survey, perm, closed, part, is_everywhere=is_everywhere)


def _closed_broker(survey: Survey, broker: BrokerSeen, allowed: int) -> Finding:
    missing = [perm for perm in _WORDS if not allowed & perm]
    name = broker.place.broker_name
    others = [
        one.place.broker_name
        for one in survey.masters
        if one is not broker and one.place.cluster == broker.place.cluster
    ]
    return Finding(
        Severity.WARNING if others else Severity.PROBLEM,
        name,
        f"{name} may not be {both([_WORDS[perm] for perm in missing])}: its brokerPermission is {allowed}",
        f"nobody can {both([_DOES[perm] for perm in missing])} it"
        + (f"; of its cluster {both(others)} can be" if others else ", and it is alone in its cluster"),
        f"pyromq cluster set brokerPermission 6{survey.at} -b {broker.place.address}",
        {"broker": name, "address": broker.place.address, "permission": allowed},
    )


def _wiped(survey: Survey, broker: BrokerSeen) -> Iterator[Finding]:
    name = broker.place.broker_name
    wiped = [
        seen.address
        for seen in survey.name_servers
        if name in seen.perms and not seen.perms[name] & Perm.WRITE
    ]
    if wiped:
        yield Finding(
            Severity.WARNING,
            name,
            f"name server {both(wiped)} lets no producer choose {name}: its write permission was wiped",
            "it gets no new messages; the others of its cluster take its share. That is right while it is "
            "drained, and is easily forgotten afterwards",
            f"pyromq admin addWritePerm{survey.at} -b {name}",
            {"broker": name, "name_servers": wiped},
        )


def _opened(survey: Survey, name: str, configs: Mapping[str, TopicConfig]) -> Cure:
    clusters = {broker.place.cluster for broker in survey.masters if broker.place.broker_name in configs}
    where = f" --cluster {next(iter(clusters))}" if len(clusters) == 1 else ""
    return Cure(name, (f"pyromq topic allow '{name}' read-write{survey.at}{where}",))


def _closed_topics(
    survey: Survey, perm: Perm, closed: Sequence[str], cures: Sequence[Cure], *, is_everywhere: bool
) -> Finding:
    return Finding(
        Severity.PROBLEM if is_everywhere else Severity.WARNING,
        subject_of(cures),
        f"{named(cures)} may not be {_WORDS[perm]} on {both(closed)}"
        + (", which is all there is of it" if is_everywhere else ""),
        f"nobody can {_DOES[perm]} it" + ("" if is_everywhere else " there; the other brokers carry on"),
        remedy("permissions", cures, survey),
        {"brokers": list(closed), "missing": (perm.name or "").lower(), **facts_of(cures)},
    )


PERMISSIONS = Check("permissions", "brokers and topics that may not be written or read", permissions)
