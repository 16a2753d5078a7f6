"""Groups that clients use and brokers do not have."""

import shlex
from collections.abc import Iterator, Sequence

from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import both, counted, lines, some_of


def groups(survey: Survey) -> Iterator[Finding]:
    """Find members whose group a broker does not have, and what is left of groups that were deleted."""
    deleted = []
    for group in survey.groups.seen.values():
        if brokers := refusing(survey, group):
            yield _refused(survey, group, brokers)
        elif group.is_deleted and group.places <= survey.listing:
            deleted.append(group)
    if deleted:
        yield _deleted(survey, deleted)


def refusing(survey: Survey, group: GroupSeen) -> list[str]:
    """Return the brokers that refuse the pulls of a group's members: they do not have it, nor make it."""
    found = []
    for name in sorted(group.latest.connections):
        broker = survey.master(name)
        is_missing = name in survey.listing and name not in group.configs
        # Members also connect to brokers that have none of their topics.
        is_read = any(name in survey.topics.get(topic, {}) for topic in _users(group))
        if is_missing and is_read and broker is not None and broker.makes_groups is False:
            found.append(name)
    return found


def _refused(survey: Survey, group: GroupSeen, brokers: Sequence[str]) -> Finding:
    members = sorted(
        {one.client_id for name in brokers for one in group.latest.connections[name].connections}
    )
    verbs = ("does", "refuses") if len(brokers) == 1 else ("do", "refuse")
    return Finding(
        Severity.PROBLEM,
        f"group {group.name}",
        f"{both(brokers)} {verbs[0]} not have group {group.name}, and {verbs[1]} the pulls of its "
        f"{counted(len(members), 'member')}: {some_of(members)}",
        "with autoCreateSubscriptionGroup=false a broker has only the groups that were created on it: "
        f"members of others get none of its messages, here of {some_of(sorted(_users(group)))}",
        lines("create it; its members go on within seconds:", _create(survey, group, brokers)),
        {"group": group.name, "brokers": list(brokers), "members": members, "has": sorted(group.configs)},
    )


def _users(group: GroupSeen) -> set[str]:
    return {topic for topic in group.subscriptions if topic != group.retry_topic}


def _create(survey: Survey, group: GroupSeen, brokers: Sequence[str]) -> list[str]:
    name = shlex.quote(group.name)
    if not group.configs:
        return [f"pyromq group create {name}{survey.at}"]
    retries = max(config.retry_max_times for config in group.configs.values())
    return [
        f"pyromq admin updateSubGroup -g {name} -b {broker.address} -d true -r {retries}{survey.at}"
        for broker in survey.masters
        if broker.broker_name in brokers
    ]


def _deleted(survey: Survey, left: Sequence[GroupSeen]) -> Finding:
    first = left[0]
    broker = next(one for one in survey.masters if one.broker_name in first.places)
    name = shlex.quote(first.name)
    shown = [
        f"{group.name} (in {some_of(sorted({queue.topic for queue in group.latest.progress}), 2)})"
        for group in left
    ]
    is_one = len(left) == 1
    return Finding(
        Severity.NOTE,
        f"group {first.name}" if is_one else counted(len(left), "group"),
        f"brokers do not have {counted(len(left), 'group')} whose progress they keep: {some_of(shown)}",
        f"{'it was' if is_one else 'they were'} deleted, and began again under the same name "
        f"{'it goes' if is_one else 'they go'} on there",
        lines(
            "if a group is not used any more, take its progress away as well; if it is, create it:",
            f"pyromq admin deleteSubGroup -g {name} -c {shlex.quote(broker.cluster)} -r true{survey.at}",
            f"pyromq group create {name}{survey.at}",
        ),
        {"groups": [group.name for group in left]},
    )


GROUPS = Check("groups", "groups that clients use and brokers do not have", groups, SurveyPart.GROUPS)
