"""The faults: what each does to a cluster, what it shows, and why some machine cannot do it.

A user asks for families (`--faults kill,partition`); each has kinds, of which a schedule draws.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from pyromq.errors import ConfigError
from pyromq.torture.servers import etcd_process, process_clock
from pyromq.torture.servers.node_disk import why_no_disks, why_no_full_disks
from pyromq.torture.stage import Promises, Topology


class FaultKind(StrEnum):
    """One thing that can be done."""

    KILL = "kill"
    AMBUSH = "ambush"
    LONELY = "lonely-master"
    KILL_OFTEN = "kill-often"
    KILL_ALL = "kill-all"
    TERMINATE = "terminate"
    PAUSE = "pause"
    SHORT_PAUSES = "short-pauses"
    ISOLATE = "isolate"
    CUT_ETCD = "cut-from-etcd"
    CUT_TO_ETCD = "cut-to-etcd-one-way"
    CUT_OF_ETCD = "cut-of-etcd-one-way"
    CUT_PEER = "cut-from-peer"
    CUT_TO_PEER = "cut-to-peer-one-way"
    CUT_OF_PEER = "cut-of-peer-one-way"
    CUT_CLIENTS = "cut-from-clients"
    CUT_NAME_SERVERS = "cut-from-namesrv"
    DELAY = "delay"
    CHOP = "chop"
    TEAR = "tear"
    REFUSE = "refuse"
    KILL_ETCD = "kill-etcd"
    PAUSE_ETCD = "pause-etcd"
    KILL_NAME_SERVER = "kill-namesrv"
    FULL_DISK = "full-disk"
    SLOW_DISK = "slow-disk"
    STUCK_DISK = "stuck-disk"
    CLOCK_JUMP = "clock-jump"
    SWITCH = "switch-master"
    NEW_DISK = "new-disk"
    KILL_CLIENT = "kill-client"


#: Kinds that proxies can do, and the kernel's links cannot: clients are outside of all namespaces.
PROXY_KINDS = frozenset({FaultKind.CUT_CLIENTS, FaultKind.CUT_NAME_SERVERS})
#: Kinds that need a disk of the node's own.
DISK_KINDS = frozenset({FaultKind.FULL_DISK, FaultKind.SLOW_DISK, FaultKind.STUCK_DISK})


@dataclass(frozen=True, slots=True)
class Family:
    """Faults that a user asks for by one name."""

    name: str
    what: str
    kinds: tuple[FaultKind, ...]
    #: Replicas of a group without which it means nothing.
    replicas: int = 1
    needs_failover: bool = False
    #: Whether it is done when nobody said which faults.
    is_usual: bool = True


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "kill",
            "SIGKILL to a broker, again while it starts, or to all at once; started again on its data",
            (FaultKind.KILL, FaultKind.KILL_OFTEN, FaultKind.KILL_ALL),
        ),
        Family(
            "terminate",
            "SIGTERM to a broker, as an upgrade does; started again on its data",
            (FaultKind.TERMINATE,),
        ),
        Family(
            "pause",
            "SIGSTOP and SIGCONT to a broker, for less and for more than the lease",
            (FaultKind.PAUSE, FaultKind.SHORT_PAUSES),
        ),
        Family(
            "partition",
            "a broker is cut off from replicas, etcd, name servers or clients, one way or both",
            (
                FaultKind.ISOLATE,
                FaultKind.CUT_PEER,
                FaultKind.CUT_TO_PEER,
                FaultKind.CUT_OF_PEER,
                FaultKind.CUT_ETCD,
                FaultKind.CUT_TO_ETCD,
                FaultKind.CUT_OF_ETCD,
                FaultKind.CUT_CLIENTS,
                FaultKind.CUT_NAME_SERVERS,
                FaultKind.AMBUSH,
            ),
        ),
        Family("delay", "whatever a broker says or hears takes up to 0.6 s longer", (FaultKind.DELAY,)),
        Family("chop", "whatever a broker says or hears comes in pieces of 701 bytes", (FaultKind.CHOP,)),
        Family(
            "tear", "connections of a broker are ended without a farewell, again and again", (FaultKind.TEAR,)
        ),
        Family("refuse", "connections of a broker are torn, and new ones are refused", (FaultKind.REFUSE,)),
        Family("full-disk", "a broker's disk has not a byte left", (FaultKind.FULL_DISK,)),
        Family(
            "slow-disk",
            "writes to a broker's disk hang for up to 0.4 s, again and again",
            (FaultKind.SLOW_DISK,),
        ),
        Family("stuck-disk", "writes to a broker's disk hang", (FaultKind.STUCK_DISK,)),
        Family("kill-namesrv", "SIGKILL to a name server; started again", (FaultKind.KILL_NAME_SERVER,)),
        Family(
            "kill-client",
            "a producer or consumer is gone without a farewell; another follows",
            (FaultKind.KILL_CLIENT,),
        ),
        Family("switch-master", "pyromq admin switchMaster", (FaultKind.SWITCH,), 2, needs_failover=True),
        Family(
            "kill-etcd",
            "SIGKILL to etcd; started again on its data",
            (FaultKind.KILL_ETCD,),
            needs_failover=True,
        ),
        Family("pause-etcd", "SIGSTOP and SIGCONT to etcd", (FaultKind.PAUSE_ETCD,), needs_failover=True),
        Family(
            "lonely-master",
            "slaves stop until the master goes on without them, and come back as it is killed",
            (FaultKind.LONELY,),
            2,
            needs_failover=True,
        ),
        Family(
            "new-disk",
            "a broker is killed, and comes back with an empty disk; never the only one that has everything",
            (FaultKind.NEW_DISK,),
            2,
            needs_failover=True,
            is_usual=False,
        ),
        Family(
            "clock-jump",
            "a broker's time of day jumps, up to a day; what waits for its time may come early",
            (FaultKind.CLOCK_JUMP,),
            is_usual=False,
        ),
    )
}
ALL = "all"
_OF_REPLICAS = frozenset({FaultKind.CUT_PEER, FaultKind.CUT_TO_PEER, FaultKind.CUT_OF_PEER, FaultKind.AMBUSH})
_OF_ETCD = frozenset({FaultKind.CUT_ETCD, FaultKind.CUT_TO_ETCD, FaultKind.CUT_OF_ETCD})


def read_names(text: str) -> list[str]:
    """Return the families of a list of names; raises ConfigError for what is none, with those that are."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FAMILIES and name != ALL:
            near = get_close_matches(name, FAMILIES, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"--faults: {name!r} is no fault; {hint}There are {', '.join(FAMILIES)}, all")
    return list(FAMILIES) if ALL in names else list(dict.fromkeys(names))


def usual_names() -> list[str]:
    """Return what is done when nobody says."""
    return [name for name, family in FAMILIES.items() if family.is_usual]


def impossible(promises: Promises, *, clock_library: Path | None = None) -> dict[str, str]:
    """Return the families that cannot be done here, each with the reason and how to get it."""
    reasons: dict[str, str] = {}
    if reason := why_no_full_disks():
        reasons["full-disk"] = reason
    if reason := why_no_disks():
        reasons |= dict.fromkeys(("slow-disk", "stuck-disk"), reason)
    if clock_library is None:
        reasons["clock-jump"] = f"there is no libfaketime: {process_clock.HOW_TO_GET_IT}"
    for name, family in FAMILIES.items():
        if promises.replicas < family.replicas:
            reasons[name] = f"it needs --replicas {family.replicas} or more"
        elif family.needs_failover and promises.topology is not Topology.FAILOVER:
            reasons[name] = (
                "it needs --replicas 2 or more"
                if promises.replicas == 1
                else f"it needs an etcd: {etcd_process.HOW_TO_GET_IT}"
            )
    return reasons


def kinds_of(
    names: Iterable[str], promises: Promises, without: frozenset[FaultKind] = frozenset()
) -> Mapping[FaultKind, float]:
    """Return the kinds of families with their weights; each family comes as often as any other."""
    weights: dict[FaultKind, float] = {}
    for name in names:
        kinds = [kind for kind in FAMILIES[name].kinds if _means_something(kind, promises)]
        kinds = [kind for kind in kinds if kind not in without]
        for kind in kinds:
            weights[kind] = 1 / len(kinds)
    return weights


def _means_something(kind: FaultKind, promises: Promises) -> bool:
    if kind in _OF_REPLICAS:
        return promises.replicas > 1
    return kind not in _OF_ETCD or promises.topology is Topology.FAILOVER
