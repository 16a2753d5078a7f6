"""Brokers that RocketMQ 5's SDKs cannot connect to, although somebody wants them to."""

from collections.abc import Iterator
from typing import Final

from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import lines

#: What a broker of ours tells of its gRPC port.
_ADDRESS: Final = "grpcAddress"
_WHY_NOT: Final = "whyNoGrpc"
_OURS: Final = "pyromqVersion"


def door(survey: Survey) -> Iterator[Finding]:
    """Find masters of ours without a gRPC port where it was wanted, or where others have one."""
    masters = [broker for broker in survey.answering if _OURS in broker.figures]
    opened = {broker.cluster for broker in masters if broker.figures.get(_ADDRESS)}
    for broker in masters:
        if broker.figures.get(_ADDRESS):
            continue
        why = broker.figures.get(_WHY_NOT)
        if why:
            yield _closed(broker, why)
        elif broker.cluster in opened:
            yield _alone(survey, broker)


def _closed(broker: BrokerSnapshot, why: str) -> Finding:
    # What to do stands behind the cause, in the words of the broker.
    cause, _, steps = why.partition("; ")
    return Finding(
        Severity.WARNING,
        broker.name,
        f"{broker.name} has no gRPC port: {cause}",
        "programs written with RocketMQ 5's SDKs cannot send to it or consume from it; all others can",
        lines(steps or "set grpcServerPort to a free port, or to 0", f"then restart {broker.name}"),
        {"broker": broker.broker_name, "address": broker.address, "why": why},
    )


def _alone(survey: Survey, broker: BrokerSnapshot) -> Finding:
    others = sorted(
        one.broker_name
        for one in survey.answering
        if one.cluster == broker.cluster and one.figures.get(_ADDRESS)
    )
    return Finding(
        Severity.WARNING,
        broker.name,
        f"{broker.name} has no gRPC port, and {', '.join(others)} of the same cluster "
        f"{'has' if len(others) == 1 else 'have'} one",
        "RocketMQ 5's SDKs are sent to all brokers of a topic, and fail at this one",
        lines(
            "set grpcServerPort (RocketMQ's is 8081) in its settings file, and restart it; or keep the "
            "topics that SDKs use away from it",
            f"pyromq cluster settings -b {broker.address}{survey.at}",
        ),
        {"broker": broker.broker_name, "address": broker.address, "others": others},
    )


DOOR = Check("door", "brokers that RocketMQ 5's SDKs cannot connect to", door)
