"""Groups that are behind and have no member, or none that a broker has heard of yet."""

import shlex
from collections.abc import Iterator, Sequence

from pyromq.client.observation.counts import TopicFlow
from pyromq.doctor.checks.flow_words import group_facts, oldest
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import SHOWN, counted, lasted, lines, some_of, verb

#: Groups, each with a topic in which it is behind.
Behind = Sequence[tuple[GroupSeen, TopicFlow]]


def unattended(survey: Survey, behind: Behind) -> Iterator[Finding]:
    """Tell of groups that nobody reads for: while messages come, else all in one."""
    left, unheard = [], []
    for group, flow in behind:
        if survey.newcomers(flow.broker_names):
            unheard.append((group, flow))
        elif flow.came:
            yield _deserted(survey, group, flow)
        else:
            left.append((group, flow))
    if left:
        yield _forgotten(survey, left)
    if unheard:
        yield _unheard(survey, unheard)


def _deserted(survey: Survey, group: GroupSeen, flow: TopicFlow) -> Finding:
    behind = [queue for queue, count in flow.lags.items() if count]
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"nobody reads for group {group.name}: it has no member, {counted(flow.lag, 'message')} of "
        f"{flow.topic} {verb(flow.lag, 'waits', 'wait')}, and {flow.in_rate:,.1f} a second come in. "
        f"{oldest(group, behind)}",
        "what waits is deleted in the end, read or not",
        lines(
            "start its members; if it is not used any more:",
            f"pyromq group delete {group.name}{survey.at}",
        ),
        group_facts(group, flow),
    )


def _forgotten(survey: Survey, left: Behind) -> Finding:
    names = list(dict.fromkeys(group.name for group, _ in left))
    shown = [f"{group.name} ({counted(flow.lag, 'message')} of {flow.topic})" for group, flow in left]
    return Finding(
        Severity.NOTE,
        f"group {names[0]}" if len(names) == 1 else counted(len(names), "group"),
        f"{counted(len(names), 'group')} without members {verb(len(names), 'has', 'have')} unread "
        f"messages in topics that nothing comes into: {some_of(shown)}",
        "they may be stopped for a while, or forgotten",
        lines("a group that is not used any more:", f"pyromq group delete {names[0]}{survey.at}"),
        {"groups": [{"group": group.name, "topic": flow.topic, "lag": flow.lag} for group, flow in left]},
    )


def _unheard(survey: Survey, left: Behind) -> Finding:
    names = list(dict.fromkeys(group.name for group, _ in left))
    brokers = survey.newcomers({name for _, flow in left for name in flow.broker_names})
    began = [f"{broker.name} began {lasted(survey.running_s(broker) or 0)} ago" for broker in brokers]
    shown = [f"{group.name} ({counted(flow.lag, 'message')} of {flow.topic})" for group, flow in left]
    only = "".join(f" -g {shlex.quote(name)}" for name in names) if len(names) <= SHOWN else ""
    return Finding(
        Severity.NOTE,
        f"group {names[0]}" if len(names) == 1 else counted(len(names), "group"),
        f"whether {counted(len(names), 'group')} with unread messages {verb(len(names), 'has', 'have')} "
        f"members is not known yet: {some_of(shown)}; {some_of(began)}",
        "clients tell a broker every 30 seconds that they are there: one that was restarted does not know "
        "all of them at once",
        lines("look again in a minute:", f"pyromq doctor --only lag{only}{survey.at}"),
        {
            "groups": [{"group": group.name, "topic": flow.topic, "lag": flow.lag} for group, flow in left],
            "running_seconds": {broker.name: survey.running_s(broker) for broker in brokers},
        },
    )
