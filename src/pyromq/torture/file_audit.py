"""The files and logs of the servers when all is over: what they keep must be what was promised."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Final

from pyromq.torture.checker import PromiseVerdict
from pyromq.torture.history import History
from pyromq.torture.replica_audit import compare_logs, lag_bytes
from pyromq.torture.servers.nodes import ServerNode
from pyromq.torture.servers.process_cluster import ProcessCluster
from pyromq.torture.servers.processes import start_pyromq
from pyromq.torture.stage import Topology

#: Seconds in which replicas must have everything, and in which a store is verified.
EQUAL_S_MAX = 60.0
VERIFY_S_MAX = 600.0
_LOOK_S = 0.2
#: Seconds after a deletion in which a change of masters may take it back: replicas copy the table every
#: second, and again when they could not.
_COPIED_S: Final = 10.0
_NO_QUEUE: Final = re.compile(
    r"\d+ messages of queue \d+ of '([^']+)' are in the log, but the queue has no files"
)


async def until_equal(cluster: ProcessCluster) -> None:
    """Wait until every replica has its master's log, or long enough."""
    until_s = time.monotonic() + EQUAL_S_MAX
    for group in cluster.masters:
        while not await _is_equal(cluster, group):
            if time.monotonic() > until_s:
                return
            await asyncio.sleep(_LOOK_S)


async def _is_equal(cluster: ProcessCluster, group: str) -> bool:
    members = cluster.members(group)
    if cluster.plan.promises.topology is Topology.FAILOVER:
        if len(await cluster.in_sync(group)) < len(members):
            return False
        number = cluster.number_of((await cluster.state(group)).get("master"))
        if number is not None:
            cluster.masters[group] = number
    master = cluster.master(group)
    lags = [await asyncio.to_thread(lag_bytes, master.store, node.store) for node in cluster.peers(master)]
    return not any(lags)


async def examine_files(cluster: ProcessCluster, history: History) -> list[PromiseVerdict]:
    """Look at what servers kept and logged; the brokers must be gone."""
    verdicts = [_servers(cluster)]
    replicas = [node for node in cluster.nodes if not cluster.is_master(node)]
    if replicas:
        broken = [text for node in replicas for text in await asyncio.to_thread(_compare, cluster, node)]
        verdicts.append(
            PromiseVerdict("each replica has its master's log, byte for byte", len(replicas), broken)
        )
    returned = returned_topics(history) if cluster.plan.promises.topology is Topology.FAILOVER else set()
    told = await asyncio.gather(*(_verify(node, returned) for node in cluster.nodes))
    broken = [text for text in told if text]
    return [*verdicts, PromiseVerdict("pyromq store verify finds nothing wrong", len(told), broken)]


def _servers(cluster: ProcessCluster) -> PromiseVerdict:
    nodes = (*cluster.nodes, *cluster.name_servers)
    broken = [*cluster.complaints(), *(text for node in nodes for text in node.alarms())]
    starts = sum(node.starts for node in nodes)
    return PromiseVerdict("no server ended by itself, or logged a trace", starts, broken)


def _compare(cluster: ProcessCluster, node: ServerNode) -> list[str]:
    master = cluster.master(node.group)
    found = list(compare_logs(master.store, node.store))
    lag = lag_bytes(master.store, node.store)
    if lag:
        found.append(f"behind: {node.title} lacks {lag:,} bytes of the log of {master.title}")
    return found


def returned_topics(history: History) -> set[str]:
    """Return the topics whose deletion a change of masters may have taken back, in part.

    Topics are not in the log (docs/limits.md). A master that deleted one and is replaced before the next has
    the table gets the topic back from it, and not the queue that it removed.
    """
    changes = [event.at_s for event in history.of("leader", "master")]
    ordered = {event.fields["topic"]: event.at_s for event in history.of("topic_delete")}
    ended = {event.fields["topic"]: event.at_s for event in history.of("topic_deleted", "order_failed")}
    return {
        str(topic)
        for topic, at_s in ordered.items()
        if any(at_s <= change_s <= ended.get(topic, at_s) + _COPIED_S for change_s in changes)
    }


def faults_of(said: str, returned: set[str]) -> list[str]:
    """Return the faults that `pyromq store verify --json` told, without queues of topics that came back."""
    findings = [json.loads(line) for line in said.splitlines() if line.startswith('{"event":"fault"')]
    return [
        f"{finding['file']} at byte {finding['position']}: {finding['what']}"
        for finding in findings
        if (queue := _NO_QUEUE.fullmatch(finding["what"])) is None or queue[1] not in returned
    ]


async def _verify(node: ServerNode, returned: set[str]) -> str:
    """Let `pyromq store verify` have its say on the files; being killed is no fault."""
    log = node.folder / "verify.txt"
    folder: Path = node.data / node.group
    arguments = ["store", "verify", str(folder), "--json", "--jobs", "1", *node.layout]
    prefix = () if node.disk is None else node.disk.prefix
    process = start_pyromq(arguments, log, {}, prefix)
    has_ended = await asyncio.to_thread(process.wait, VERIFY_S_MAX)
    said = log.read_text(errors="replace")
    if not has_ended or '"event":"verified"' not in said:
        return f"{node.title}: {said[-1500:]}"
    return "\n".join(f"{node.title}: {fault}" for fault in faults_of(said, returned)[:5])
