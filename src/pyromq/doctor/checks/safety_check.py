"""For production: what may be lost with one machine, one disk or one power cut, though all is well now."""

import re
from collections.abc import Iterator
from typing import Final

from pyromq.client.observation.snapshot import BrokerSnapshot, number
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import lasted, lines, sized, some_of

_UNITS: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_TOTAL: Final = re.compile(r"Total : ([\d.,]+) (\w+)")
_HOUR_S: Final = 3_600
#: Seconds of history without which nothing is said about how fast a log grows.
_HISTORY_S: Final = 6 * _HOUR_S


def durability(survey: Survey) -> Iterator[Finding]:
    """Find masters that acknowledge messages that one power cut or one lost machine takes away."""
    for master in survey.answering:
        flush, role = master.settings.get("flushDiskType"), master.settings.get("brokerRole")
        if flush is None or role is None or flush == "SYNC_FLUSH" or _waits_for_replica(master, role):
            continue
        yield Finding(
            Severity.WARNING,
            master.name,
            f"{master.name} acknowledges messages that are on no disk and on no other machine yet "
            f"({flush}, {role})",
            "a power cut or a crash of its machine loses what was acknowledged in the last moments, and no "
            "producer sends it again",
            lines(
                "if that may not be: flushDiskType=SYNC_FLUSH in its settings file, or a slave and "
                "brokerRole=SYNC_MASTER, and a restart; sends take longer then",
                f"pyromq cluster settings{survey.at} -b {master.address}",
            ),
            {"broker": master.broker_name, "flushDiskType": flush, "brokerRole": role},
        )


def _waits_for_replica(master: BrokerSnapshot, role: str) -> bool:
    if master.settings.get("failover"):
        return (number(master.settings, "inSyncReplicas") or 1) > 1
    return role == "SYNC_MASTER"


def spares(survey: Survey) -> Iterator[Finding]:
    """Find what there is only one of."""
    if len(survey.name_servers) == 1:
        (only,) = survey.name_servers
        yield Finding(
            Severity.WARNING,
            f"name server {only.address}",
            f"the doctor was told of one name server only, {only.address}",
            "while it is away no client can start or learn of a change, and no broker can register",
            "run a second one on another machine and put both addresses, joined by a semicolon, into "
            "namesrvAddr of brokers and NAMESRV_ADDR of clients; if there are more, name all of them with -n",
            {"name_servers": [only.address]},
        )
    alone = [
        one.broker_name
        for one in survey.masters
        if not any(other.broker_name == one.broker_name and not other.is_master for other in survey.brokers)
    ]
    if alone:
        is_all = len(survey.masters) == 1
        yield Finding(
            Severity.WARNING,
            alone[0] if len(alone) == 1 else f"{len(alone)} brokers",
            f"{some_of(alone)} {'has' if len(alone) == 1 else 'have'} no replica"
            + (", and there is no other broker" if is_all else ""),
            "while it is away nobody can send or read anything, and its disk is the only copy"
            if is_all
            else "while one is away nobody reads what it has, and its disk is the only copy",
            "give each master a slave on another machine: docs/howto/replication.md",
            {"brokers": alone},
        )


def room(survey: Survey) -> Iterator[Finding]:
    """Find disks that are too small for what fileReservedTime promises, at the rate until now."""
    for broker in survey.brokers:
        total, grows = _disk_bytes(broker), _bytes_a_second(broker)
        hours = number(broker.settings, "fileReservedTime")
        if total is None or grows is None or not hours:
            continue
        used = (number(broker.settings, "diskMaxUsedSpaceRatio") or 75) / 100
        needs, has = grows * hours * _HOUR_S, total * used
        if needs > has:
            yield Finding(
                Severity.WARNING,
                broker.name,
                f"{broker.name} keeps messages for {hours:g} hours (fileReservedTime), which takes "
                f"{sized(needs)} at its rate until now; its disk has room for {sized(has)} of them",
                f"messages will go after about {lasted(has / grows)}, read or not, and sends may be refused",
                lines(
                    "a larger disk, or more brokers, or a shorter time that the disk can keep:",
                    f"pyromq cluster set fileReservedTime {max(1, int(has / grows / _HOUR_S))}{survey.at} "
                    f"-b {broker.address}",
                ),
                {
                    "broker": broker.broker_name,
                    "bytes_a_second": round(grows, 1),
                    "needs_bytes": int(needs),
                    "has_bytes": int(has),
                },
            )


def _disk_bytes(broker: BrokerSnapshot) -> float | None:
    found = _TOTAL.search(broker.figures.get("commitLogDirCapacity", ""))
    if found is None or found[2] not in _UNITS:
        return None
    return float(found[1].replace(",", "")) * _UNITS[found[2]]


def _bytes_a_second(broker: BrokerSnapshot) -> float | None:
    """Return how fast a log has grown since its oldest message; None before there is some history."""
    figures = broker.figures
    first, last = number(figures, "commitLogMinOffset"), number(figures, "commitLogMaxOffset")
    oldest_ms = number(figures, "earliestMessageTimeStamp")
    if first is None or last is None or oldest_ms is None or oldest_ms <= 0:
        return None
    passed_s = (broker.answered_at_ms - oldest_ms) / 1_000
    return None if passed_s < _HISTORY_S or last <= first else (last - first) / passed_s


def versions(survey: Survey) -> Iterator[Finding]:
    """Find brokers of a cluster with different versions."""
    by_cluster: dict[str, dict[str, list[str]]] = {}
    for broker in survey.brokers:
        said = broker.figures.get("brokerVersionDesc")
        if said is not None:
            ours = broker.figures.get("pyromqVersion")
            text = said if ours is None else f"{said}, PyroMQ {ours}"
            by_cluster.setdefault(broker.cluster, {}).setdefault(text, []).append(broker.name)
    for cluster, found in by_cluster.items():
        if len(found) > 1:
            said = "; ".join(f"{text}: {some_of(names)}" for text, names in sorted(found.items()))
            yield Finding(
                Severity.WARNING,
                f"cluster {cluster}",
                f"brokers of cluster {cluster} have different versions ({said})",
                "what one of them can do another may not: a client gets another answer at each",
                "bring all to one version, one after the other; during such an upgrade "
                "there is nothing to do",
                {"cluster": cluster, "versions": found},
            )


DURABILITY = Check("durability", "for production: acknowledged messages that one crash loses", durability)
SPARES = Check("spares", "for production: name servers and brokers that nothing stands in for", spares)
ROOM = Check("room", "for production: disks too small for fileReservedTime", room)
VERSIONS = Check("versions", "for production: brokers of different versions", versions)
