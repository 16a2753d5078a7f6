"""Masters and slaves that are missing, and slaves that are behind.

A slave is behind when it does not have, after the watch, what its master had before it: traffic alone cannot
make that so.
"""

import shlex
from collections.abc import Iterator
from typing import Final

from pyromq.client.observation.snapshot import BrokerSnapshot, number
from pyromq.doctor.checks.address_check import is_loopback
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.start_commands import OF_ONE_MACHINE, broker_command, hidden_settings, is_ours
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import both, counted, lines, sized
from pyromq.wire.bodies.replica_bodies import ReplicaList, ReplicaState

_END: Final = "commitLogMaxOffset"
#: What a slave of ours says of its master, also when that is lost.
_MASTER_ROLE: Final = "masterRole"
_FALL_BEHIND_MAX: Final = 256 * 1024 * 1024
#: Seconds of a watch in which a slave that follows must have copied something.
STUCK_S: Final = 1.0


def replicas(survey: Survey) -> Iterator[Finding]:
    """Find masters and slaves that are missing, and slaves that are behind."""
    for name in sorted({broker.broker_name for broker in survey.brokers}):
        master = survey.master(name)
        slaves = [broker for broker in survey.brokers if broker.broker_name == name and not broker.is_master]
        if master is None:
            yield _no_master(survey, name, slaves)
            continue
        if name in survey.replicas:
            yield from _elected(survey, survey.replicas[name], master)
        elif master.failure is None and master.settings.get("brokerRole") == "SYNC_MASTER":
            yield from _alone(survey, master, slaves)
        for slave in slaves:
            yield from _apart(survey, master, slave)


def _no_master(survey: Survey, name: str, slaves: list[BrokerSnapshot]) -> Finding:
    there = both([f"{slave.broker_id} at {slave.address}" for slave in slaves])
    if name in survey.replicas:
        do = lines(
            "etcd decides who is master: is it up, and do the replicas reach it? What they say:",
            _replicas_command(survey, name),
        )
    else:
        do = _promotion(survey, slaves)
    return Finding(
        Severity.PROBLEM,
        name,
        f"{name} has no master, only {'slave' if len(slaves) == 1 else 'slaves'} {there}",
        "nobody can send to it; what is there can be read, and progress is not kept for long",
        do,
        {"broker": name, "slaves": {str(slave.broker_id): slave.address for slave in slaves}},
    )


def _promotion(survey: Survey, slaves: list[BrokerSnapshot]) -> str:
    """Return how the slave that has most of the log is made the master."""
    best = max(slaves, key=lambda slave: (number(slave.figures, _END) or -1.0, -slave.broker_id))
    who = f"slave {best.broker_id} at {best.address}"
    again = "start the master again, on its own folder; or, if it is lost for good, "
    # An old slave, and one that began after the master was lost, cannot know.
    role = best.figures.get(_MASTER_ROLE, "")
    asked = (
        "" if role else "; put SYNC_MASTER in place of ROLE if sends waited for a slave, else ASYNC_MASTER"
    )
    changes = {"brokerId": "0", "brokerRole": role or "ROLE"}
    if best.settings.get("listenPort") == "0":
        changes["listenPort"] = best.address.rpartition(":")[2]
    if not best.settings.get("namesrvAddr"):
        changes["namesrvAddr"] = ";".join(seen.address for seen in survey.name_servers)
    if not is_ours(best.settings):
        return lines(
            f"{again}stop {who}, write brokerId=0 and brokerRole={role or 'ROLE'} into its settings file, "
            f"and start it again with this file on its own folder{asked}"
        )
    hidden = hidden_settings(best.settings)
    return lines(
        f"{again}stop {who}, and start it as the master, on its own machine and folder{asked}:",
        broker_command(best.settings, changes),
        [f"and with its own {both(hidden)}, which the doctor is not told"] if hidden else [],
    )


def _alone(survey: Survey, master: BrokerSnapshot, slaves: list[BrokerSnapshot]) -> Iterator[Finding]:
    name = master.broker_name
    there = [slave for slave in slaves if slave.failure is None]
    if there:
        return
    yield Finding(
        Severity.PROBLEM,
        name,
        f"{name} is SYNC_MASTER, and no slave of it is there",
        "every send is answered SLAVE_NOT_AVAILABLE: the message is stored on one machine only, and careful "
        "producers take it for failed and send it again",
        lines(
            _new_slave(survey, master, slaves),
            "or let sends wait for nobody: brokerRole=ASYNC_MASTER, and a restart",
        ),
        {"broker": name, "address": master.address, "role": "SYNC_MASTER"},
    )


def _new_slave(survey: Survey, master: BrokerSnapshot, slaves: list[BrokerSnapshot]) -> list[str]:
    """Return how a slave of a master is started."""
    name = master.broker_name
    number_of_it = str(min((slave.broker_id for slave in slaves), default=1))
    if not is_ours(master.settings):
        return [
            f"start its slave: brokerName={name}, brokerId={number_of_it} and brokerRole=SLAVE in its file"
        ]
    changes = {
        "namesrvAddr": ";".join(seen.address for seen in survey.name_servers),
        "listenPort": "0",
        "brokerId": number_of_it,
        "brokerRole": "SLAVE",
    }
    if not is_loopback(master.address):
        changes["bindAddress"] = "0.0.0.0"
    command = broker_command(master.settings, changes, OF_ONE_MACHINE)
    return [
        "start its slave, on its own folder if that is still there, or with a new one (--port 0 takes a free "
        "port):",
        f"{command} --data {shlex.quote(f'./{name}-slave')}",
    ]


def _apart(survey: Survey, master: BrokerSnapshot, slave: BrokerSnapshot) -> Iterator[Finding]:
    had, has = number(master.figures, _END), number(survey.later(slave), _END)
    ahead, end = number(slave.figures, _END), number(survey.later(master), _END)
    if had is not None and has is not None and has < had:
        yield _behind(survey, master, slave, had - has)
    elif ahead is not None and end is not None and ahead > end:
        yield _diverged(master, slave, ahead - end)


def _behind(survey: Survey, master: BrokerSnapshot, slave: BrokerSnapshot, count: float) -> Finding:
    name = master.broker_name
    is_sync = master.settings.get("brokerRole") == "SYNC_MASTER"
    most = number(master.settings, "haSlaveFallbehindMax") or _FALL_BEHIND_MAX
    is_moving = number(survey.later(slave), _END) != number(slave.figures, _END)
    is_stuck = not is_moving and survey.scope.watch_s >= STUCK_S
    return Finding(
        Severity.PROBLEM if (is_sync and count > most) or is_stuck else Severity.WARNING,
        slave.name,
        f"slave {slave.name} at {slave.address} is {sized(count)} behind its master"
        + (", and copies nothing" if is_stuck else ""),
        f"if {name}'s master were lost now, these messages would be gone"
        + ("; sends do not wait for a slave that is so far behind" if is_sync and count > most else ""),
        lines(
            "its log says why it cannot follow: is the master's haListenPort open to it (brokerIP2), is its "
            "disk full, is its log another one than the master's?",
            f"pyromq cluster status{survey.at} -b {slave.address}",
        ),
        {
            "broker": name,
            "id": slave.broker_id,
            "address": slave.address,
            "behind_bytes": int(count),
            "is_moving": is_moving,
        },
    )


def _diverged(master: BrokerSnapshot, slave: BrokerSnapshot, count: float) -> Finding:
    return Finding(
        Severity.PROBLEM,
        slave.name,
        f"slave {slave.name} at {slave.address} has {sized(count)} more than its master at {master.address}",
        "its log is not the master's, so it cannot follow: it has messages that the master does not have, "
        "and lacks the master's",
        lines(
            "which of the two is right? if it is the master: stop the slave, keep its folder elsewhere, and "
            "start it on an empty one",
            f"mv {slave.settings.get('storePathRootDir', 'FOLDER')} KEEP",
        ),
        {
            "broker": master.broker_name,
            "id": slave.broker_id,
            "address": slave.address,
            "ahead_bytes": int(count),
        },
    )


def _elected(survey: Survey, listed: ReplicaList, master: BrokerSnapshot) -> Iterator[Finding]:
    """Find what is wrong with a group whose master etcd decides."""
    name = listed.broker_name
    look = _replicas_command(survey, name)
    in_sync = sum(one.is_in_sync for one in listed.replicas)
    least = int(number(master.settings, "minInSyncReplicas") or 1)
    if in_sync < least:
        yield Finding(
            Severity.PROBLEM,
            name,
            f"{name} has {counted(in_sync, 'replica')} in sync, and takes messages only with {least}",
            "every send is refused until another replica has caught up",
            lines("start the replicas that are missing, or look at why they are behind:", look),
            {"broker": name, "in_sync": in_sync, "min_in_sync": least},
        )
    for one in listed.replicas:
        if not one.is_master and not (one.is_present and one.is_in_sync):
            yield _not_in_sync(name, one, look)


def _replicas_command(survey: Survey, name: str) -> str:
    return f"pyromq admin replicas{survey.at} -b {name}"


def _not_in_sync(name: str, one: ReplicaState, look: str) -> Finding:
    behind = "" if one.behind_ms is None else f", {one.behind_ms / 1000:,.0f} s behind"
    return Finding(
        Severity.WARNING,
        f"{name}:{one.broker_id}",
        f"replica {one.address} of {name} is {'not in sync' + behind if one.is_present else 'not there'}",
        "it cannot become master without loss, so there is one less to take over",
        lines("start it, or see how far it is:", look),
        {"broker": name, "address": one.address, "present": one.is_present, "behind_ms": one.behind_ms},
    )


REPLICAS = Check("replicas", "masters and slaves that are missing or behind", replicas, SurveyPart.MOTION)
