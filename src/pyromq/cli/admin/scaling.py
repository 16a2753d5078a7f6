"""`pyromq admin` updateTopic, wipeWritePerm, addWritePerm, clusterList: for people and for programs."""

import dataclasses
from collections.abc import Sequence

from pyromq.cli import output
from pyromq.cli.admin.operator import Operator
from pyromq.client.plans.scaling import Member, Told, TopicUpdate, allow_writes, members, update_topic
from pyromq.clock import SystemClock
from pyromq.codes import Perm

_NOTHING = "-"
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
    if not is_json:
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


def show_told(broker: str, told: Sequence[Told], *, is_allowed: bool, is_json: bool) -> None:
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


def run_cluster_list(*, name_server: str, with_totals: bool, interval_s: float | None, is_json: bool) -> None:
    """Print all brokers, once or every so many seconds."""
    with Operator(name_server) as operator:
        while True:
            found = operator.run(members)
            if is_json:
                for member in found:
                    output.say_json(dataclasses.asdict(member))
            else:
                rows = _totals(found) if with_totals else _overview(found)
                for line in output.columns(rows):
                    output.say(line)
                for member in found:
                    if member.failure is not None:
                        output.warn(f"{member.broker_name} at {member.address}: {member.failure}")
            if interval_s is None:
                return
            operator.pause(interval_s)


def permission_text(perm: int) -> str:
    """Return a permission in words."""
    words = [word for bit, word in ((Perm.READ, "readable"), (Perm.WRITE, "writable")) if perm & bit]
    return " and ".join(words) or "neither readable nor writable"


def _all_went_well(told: Sequence[Told]) -> bool:
    return all(one.failure is None for one in told)


def _overview(found: Sequence[Member]) -> list[list[str]]:
    rows = [
        [
            "#Cluster Name",
            "#Broker Name",
            "#BID",
            "#Addr",
            "#Version",
            "#InTPS",
            "#OutTPS",
            "#Hour",
            "#SPACE",
            "#Write",
        ]
    ]
    for member in found:
        figures = member.figures
        rows.append(
            [
                member.cluster,
                member.broker_name,
                str(member.broker_id),
                member.address,
                figures.get("brokerVersionDesc", _NOTHING),
                _first_number(figures.get("putTps", "")),
                _first_number(figures.get("getTransferedTps", "")),
                _hours_since(figures.get("earliestMessageTimeStamp", "")),
                _first_number(figures.get("commitLogDiskRatio", "")),
                {True: "yes", False: "no", None: _NOTHING}[member.is_writable],
            ]
        )
    return rows


def _totals(found: Sequence[Member]) -> list[list[str]]:
    rows = [
        [
            "#Cluster Name",
            "#Broker Name",
            "#InTotalYest",
            "#OutTotalYest",
            "#InTotalToday",
            "#OutTotalToday",
        ]
    ]
    for member in found:
        rows.append(
            [
                member.cluster,
                member.broker_name,
                *(
                    _difference(member.figures, f"msg{way}Total{until}", f"msg{way}Total{since}")
                    for until, since in (("TodayMorning", "YesterdayMorning"), ("TodayNow", "TodayMorning"))
                    for way in ("Put", "Get")
                ),
            ]
        )
    return rows


def _first_number(text: str) -> str:
    first = text.partition(" ")[0]
    try:
        return f"{float(first):.2f}"
    except ValueError:
        return _NOTHING


def _hours_since(text: str) -> str:
    if not text.isdecimal():
        return _NOTHING
    return f"{(SystemClock().now_ms() - int(text)) / _MS_OF_HOUR:.2f}"


def _difference(figures: dict[str, str], until: str, since: str) -> str:
    ends = figures.get(until, ""), figures.get(since, "")
    return str(int(ends[0]) - int(ends[1])) if all(end.isdecimal() for end in ends) else _NOTHING
