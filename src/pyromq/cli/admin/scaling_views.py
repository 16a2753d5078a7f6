"""`pyromq admin` updateTopic, wipeWritePerm, addWritePerm, clusterList: for people and for programs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from pyromq.cli import output
from pyromq.cli.admin.operator import Operator
from pyromq.cli.exit_status import NOT_THERE, status_of_part
from pyromq.cli.views.listing import Listing, did_not_answer, show_again
from pyromq.client.plans.admin.scaling_plans import (
    ClusterMember,
    ServerReply,
    TopicUpdate,
    allow_writes,
    members,
    update_topic,
)
from pyromq.clock import SystemClock
from pyromq.codes import Perm

_MS_OF_HOUR = 3_600_000
#: What mqadmin's lines begin with, which scripts look for.
_VERBS = {True: "add", False: "wipe"}


def run_update_topic(
    update: TopicUpdate, *, cluster: str | None, address: str | None, name_server: str, is_json: bool
) -> bool:
    """Create or change a topic, and return whether every broker did it."""
    with Operator(name_server) as operator:
        told = operator.run(
            lambda session, deadline: update_topic(
                session, update, cluster_name=cluster, address=address, deadline=deadline
            )
        )
    for one in told:
        if is_json:
            output.say_json({"broker": one.address, "topic": update.topic, "failure": one.failure})
        elif one.failure is None:
            output.say(f"create topic to {one.address} success.")
        else:
            output.complain(f"create topic to {one.address} failed: {one.failure}")
    if not is_json and any(one.failure is None for one in told):
        output.say(
            f"{update.topic}: {update.write_queue_count} queues to write, {update.read_queue_count} to read, "
            f"{permission_text(update.perm)}{', ordered' if update.is_ordered else ''}"
        )
    return _all_went_well(told)


def run_allow_writes(broker: str, *, is_allowed: bool, name_server: str, is_json: bool) -> bool:
    """Give or take a broker's write permission, and return whether every name server did it."""
    with Operator(name_server) as operator:
        told = operator.run(
            lambda session, deadline: allow_writes(session, broker, is_allowed=is_allowed, deadline=deadline)
        )
    show_told(broker, told, is_allowed=is_allowed, is_json=is_json)
    return _all_went_well(told)


def show_told(broker: str, told: Sequence[ServerReply], *, is_allowed: bool, is_json: bool) -> None:
    """Print what each name server said to a change of a broker's write permission."""
    verb = _VERBS[is_allowed]
    for one in told:
        if is_json:
            output.say_json(
                {
                    "event": f"{verb}_write_perm",
                    "broker": broker,
                    "namesrv": one.address,
                    "topics": one.topic_count,
                    "failure": one.failure,
                }
            )
        elif one.failure is None:
            place = f"broker[{broker}] in name server[{one.address}]"
            output.say(f"{verb} write perm of {place} OK, {one.topic_count}")
        else:
            place = f"broker[{broker}] in name server[{one.address}]"
            output.complain(f"{verb} write perm of {place} Failed: {one.failure}")


def run_cluster_list(*, name_server: str, with_totals: bool, interval_s: float | None, is_json: bool) -> int:
    """Print all brokers, once or every so many seconds, and return the status that they make."""
    with Operator(name_server) as operator:
        return show_again(
            lambda: _brokers(operator.run(members), _TOTALS if with_totals else _OVERVIEW, name_server),
            interval_s,
            is_json=is_json,
        ).status


def permission_text(perm: int) -> str:
    """Return a permission in words."""
    words = [word for bit, word in ((Perm.READ, "readable"), (Perm.WRITE, "writable")) if perm & bit]
    return " and ".join(words) or "neither readable nor writable"


def _all_went_well(told: Sequence[ServerReply]) -> bool:
    return all(one.failure is None for one in told)


_OVERVIEW = (
    ("#Cluster Name", "cluster"),
    ("#Broker Name", "broker_name"),
    ("#BID", "broker_id"),
    ("#Addr", "address"),
    ("#Version", "version"),
    ("#InTPS", "in_tps"),
    ("#OutTPS", "out_tps"),
    ("#Hour", "hours"),
    ("#SPACE", "disk_ratio"),
    ("#Write", "is_writable"),
    # Ours, and the last: whoever cuts mqadmin's columns out by their number still gets them.
    ("#PyroMQ", "pyromq_version"),
)
_TOTALS = (
    ("#Cluster Name", "cluster"),
    ("#Broker Name", "broker_name"),
    ("#InTotalYest", "in_yesterday"),
    ("#OutTotalYest", "out_yesterday"),
    ("#InTotalToday", "in_today"),
    ("#OutTotalToday", "out_today"),
)


def _brokers(found: Sequence[ClusterMember], columns: Sequence[tuple[str, str]], name_server: str) -> Listing:
    silent = [member for member in found if member.failure is not None]
    return Listing(
        columns,
        [_record(member) for member in found],
        warnings=[did_not_answer(member.broker_name, member.failure or "") for member in silent]
        if found
        else [f"no broker has registered there; one is started with: pyromq broker -n '{name_server}'"],
        status=status_of_part(len(found), [one.failure or "" for one in silent]) if found else NOT_THERE,
    )


def _record(member: ClusterMember) -> dict[str, Any]:
    figures = member.figures
    yesterday, today = ("TodayMorning", "YesterdayMorning"), ("TodayNow", "TodayMorning")
    return dataclasses.asdict(member) | {
        "version": figures.get("brokerVersionDesc"),
        "pyromq_version": figures.get("pyromqVersion"),
        "in_tps": _first_number(figures.get("putTps", "")),
        "out_tps": _first_number(figures.get("getTransferedTps", "")),
        "hours": _hours_since(figures.get("earliestMessageTimeStamp", "")),
        "disk_ratio": _first_number(figures.get("commitLogDiskRatio", "")),
        "in_yesterday": _between(figures, "msgPutTotal", *yesterday),
        "out_yesterday": _between(figures, "msgGetTotal", *yesterday),
        "in_today": _between(figures, "msgPutTotal", *today),
        "out_today": _between(figures, "msgGetTotal", *today),
    }


def _first_number(text: str) -> float | None:
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return None


def _hours_since(text: str) -> float | None:
    return (SystemClock().now_ms() - int(text)) / _MS_OF_HOUR if text.isdecimal() else None


def _between(figures: dict[str, str], name: str, until: str, since: str) -> int | None:
    ends = figures.get(name + until, ""), figures.get(name + since, "")
    return int(ends[0]) - int(ends[1]) if all(end.isdecimal() for end in ends) else None
