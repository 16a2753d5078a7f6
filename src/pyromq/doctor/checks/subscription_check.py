"""Members of one group that do not want the same, or not in the same way."""

import re
from collections.abc import Iterator, Sequence

from pyromq.client.plans.admin.consumer_status_plans import stance_of
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import lines, meant, some_of
from pyromq.filter.agreement import Stance, find_conflict
from pyromq.system_names import is_users_group, is_users_topic
from pyromq.wire.bodies.connection_bodies import RefusedMember

_STARTED = "PROP_CONSUMER_START_TIMESTAMP"


def subscriptions(survey: Survey) -> Iterator[Finding]:
    """Find groups whose members differ, groups that want a topic that is not there, and no such group."""
    for name in survey.scope.groups:
        if name not in survey.group_configs and name not in survey.groups.seen:
            yield _unknown(survey, name)
    for group in survey.groups.seen.values():
        if (difference := _difference(survey, group)) is not None:
            yield _differing(survey, group, difference)
        for setting, tell in _SETTINGS.items():
            sides = told_apart_by(group, setting)
            if len(sides) > 1:
                yield tell(survey, group, sides)
        for topic in sorted(group.subscriptions):
            if topic not in survey.topics and is_users_topic(topic) and survey.scope.concerns(topic):
                yield _missing(survey, group, topic)


def told_apart_by(group: GroupSeen, setting: str) -> dict[str, list[str]]:
    """Return the members' ids by what they say that a setting of theirs is."""
    found: dict[str, list[str]] = {}
    for client_id, state in sorted(group.latest.states.items()):
        if value := state.properties.get(setting):
            found.setdefault(value, []).append(client_id)
    return found


def _difference(survey: Survey, group: GroupSeen) -> str | None:
    """Return what members say differently; or what their brokers have noticed, if they do not say it."""
    said = group.latest.connections
    model = next((one.message_model for one in said.values()), "")
    states = sorted(group.latest.states.items(), key=lambda each: each[1].properties.get(_STARTED, ""))
    conflict = find_conflict(
        (client_id, _narrowed(survey, stance_of(state, model))) for client_id, state in states
    )
    if conflict is not None:
        return str(conflict)
    noticed = [one.conflict.difference for one in said.values() if one.conflict is not None]
    return next((words for words in noticed if _is_about(words, survey.scope.topics)), None)


def _is_about(words: str, topics: Sequence[str]) -> bool:
    """Whether a text names one of the topics; if there are none, whatever it is about."""
    names = "|".join(map(re.escape, topics))
    return re.search(rf"(?<![\w%|-])(?:{names})(?![\w%|-])", words) is not None if topics else True


def _narrowed(survey: Survey, stance: Stance) -> Stance:
    """Return what a member wants of the topics that are looked at."""
    return stance._replace(
        wants=frozenset(each for each in stance.wants if survey.scope.concerns(each.topic))
    )


def _refused(group: GroupSeen) -> list[RefusedMember]:
    found = {
        one.client_id: one
        for said in group.latest.connections.values()
        if said.conflict is not None
        for one in said.conflict.refused
    }
    return [found[client_id] for client_id in sorted(found)]


def _differing(survey: Survey, group: GroupSeen, difference: str) -> Finding:
    refused = _refused(group)
    message = f"members of group {group.name} subscribe differently: {difference}"
    why = (
        "members share the queues: a message that only some of them want is lost to the group when another "
        "one reads its queue"
    )
    if refused:
        named = [f"{one.client_id} at {one.client_addr}" for one in refused]
        message += f"; not let into the group: {some_of(named)}"
        why = "those who are refused get no messages; the others read all queues, so nothing is lost"
    return Finding(
        Severity.PROBLEM,
        f"group {group.name}",
        message,
        why,
        lines(
            "let all members subscribe to the same (docs/howto/subscriptions.md), or use two groups; who "
            "wants what:",
            f"pyromq admin consumerStatus -g {group.name}{survey.at}",
        ),
        {
            "group": group.name,
            "difference": difference,
            "members": {
                client_id: sorted(map(str, _narrowed(survey, stance_of(state, "")).wants))
                for client_id, state in sorted(group.latest.states.items())
            },
            "refused": {one.client_id: list(one.subscriptions) for one in refused},
        },
    )


def _types(survey: Survey, group: GroupSeen, sides: dict[str, list[str]]) -> Finding:
    return _setting(
        survey,
        group,
        sides,
        "push and pull consumers are in group {group}",
        "those who pull choose their queues themselves, so messages are read twice, and each overwrites the "
        "progress of the other",
        "give one of the two kinds a group of its own",
    )


def _orders(survey: Survey, group: GroupSeen, sides: dict[str, list[str]]) -> Finding:
    return _setting(
        survey,
        group,
        sides,
        "some members of group {group} consume in order (true), and some do not (false)",
        "what the others read is in no order, and they take no locks: order is lost for the whole group",
        "let all members have a listener of the same kind",
    )


def _begins(survey: Survey, group: GroupSeen, sides: dict[str, list[str]]) -> Finding:
    return _setting(
        survey,
        group,
        sides,
        "members of group {group} begin at different places",
        "it matters for queues only that the group never read: where it begins there is chance",
        "let all members have the same consumeFromWhere (consume_from)",
        Severity.NOTE,
    )


_SETTINGS = {"PROP_CONSUME_TYPE": _types, "PROP_CONSUMEORDERLY": _orders, "consumeFromWhere": _begins}


def _setting(
    survey: Survey,
    group: GroupSeen,
    sides: dict[str, list[str]],
    message: str,
    why: str,
    do: str,
    severity: Severity = Severity.WARNING,
) -> Finding:
    who = "; ".join(f"{value}: {some_of(clients)}" for value, clients in sorted(sides.items()))
    return Finding(
        severity,
        f"group {group.name}",
        f"{message.format(group=group.name)}: {who}",
        why,
        lines(do, f"pyromq admin consumerStatus -g {group.name}{survey.at}"),
        {"group": group.name, "sides": sides},
    )


def _unknown(survey: Survey, name: str) -> Finding:
    return Finding(
        Severity.PROBLEM,
        f"group {name}",
        f"no broker knows a group {name}",
        "nobody has ever read in its name here, or it was deleted",
        lines(meant(name, filter(is_users_group, survey.group_configs)), f"pyromq group list{survey.at}"),
        {"group": name},
    )


def _missing(survey: Survey, group: GroupSeen, topic: str) -> Finding:
    # A topic that its first message creates may well have readers before.
    is_created = any(one.settings.get("autoCreateTopicEnable", "true") == "true" for one in survey.masters)
    return Finding(
        Severity.NOTE if is_created else Severity.WARNING,
        f"group {group.name}",
        f"group {group.name} subscribes to topic {topic}, which no broker has",
        "its members wait for messages that cannot come"
        + (" before somebody sends to it, which creates it" if is_created else ""),
        lines(
            meant(topic, filter(is_users_topic, survey.topics)),
            "if it is, create it:",
            f"pyromq topic create {topic}{survey.at}",
        ),
        {"group": group.name, "topic": topic},
    )


SUBSCRIPTIONS = Check(
    "subscriptions",
    "members of one group that subscribe or consume differently",
    subscriptions,
    SurveyPart.GROUPS,
)
