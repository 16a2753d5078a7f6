"""Topics that are on some masters of a cluster only, or differ between them.

Many topics with the same fault, as after a new broker came, are one finding: the commands for all of them are
in its facts.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.codes import Perm
from pyromq.doctor.checks.check import Check
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import both, counted, lines, meant, some_of
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.topic_bodies import TopicConfig

#: So many topics with the same fault are named one by one; more are one finding.
ONE_BY_ONE: Final = 3
_READ_AND_WRITE: Final = Perm.READ | Perm.WRITE


@dataclass(frozen=True, slots=True)
class Cure:
    """A topic, and the commands that would make it whole."""

    topic: str
    commands: tuple[str, ...]


def topics(survey: Survey) -> Iterator[Finding]:
    """Find topics that are on some masters of a cluster only, or nowhere."""
    for name in survey.scope.topics:
        if name not in survey.topics and _all_said(survey):
            yield _nowhere(survey, name)
    found: defaultdict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Cure]] = defaultdict(list)
    for cluster, masters in _clusters(survey).items():
        for name, configs in survey.users_topics.items():
            there = tuple(one for one in masters if one in configs)
            absent = tuple(one for one in masters if one not in configs)
            if there and absent:
                cure = Cure(name, tuple(_create(survey, configs[there[0]], masters[one]) for one in absent))
                found[cluster, there, absent].append(cure)
    for (cluster, there, absent), cures in found.items():
        for part in parts(cures):
            yield _partial(cluster, there, absent, part, survey)


def queues(survey: Survey) -> Iterator[Finding]:
    """Find topics with more queues on one broker than on another, and queues that nobody reads."""
    for masters in _clusters(survey).values():
        uneven, unread, shrunk = [], [], []
        for name, configs in survey.users_topics.items():
            here = {broker: configs[broker] for broker in masters if broker in configs}
            if any(config.write_queue_nums > config.read_queue_nums for config in here.values()):
                unread.append(_cured(survey, masters, here, name))
            elif len({config.write_queue_nums for config in here.values()}) > 1:
                uneven.append(_cured(survey, masters, here, name))
            elif any(config.write_queue_nums < config.read_queue_nums for config in here.values()):
                shrunk.append(_cured(survey, masters, here, name))
        for make, cures in ((_unread, unread), (_uneven, uneven), (_shrunk, shrunk)):
            for part in parts(cures):
                yield make(survey, part)


def parts(cures: Sequence[Cure]) -> Iterator[Sequence[Cure]]:
    """Yield topics with the same fault one by one, or all together if they are many."""
    if len(cures) > ONE_BY_ONE:
        yield cures
    else:
        yield from ([cure] for cure in cures)


def subject_of(cures: Sequence[Cure]) -> str:
    """Return what a finding about topics is about."""
    return f"topic {cures[0].topic}" if len(cures) == 1 else counted(len(cures), "topic")


def named(cures: Sequence[Cure]) -> str:
    """Return the topics as a sentence begins with them."""
    if len(cures) == 1:
        return f"topic {cures[0].topic}"
    return f"{counted(len(cures), 'topic')} ({some_of([cure.topic for cure in cures])})"


def remedy(check: str, cures: Sequence[Cure], survey: Survey) -> str:
    """Return the commands, or how to get them all if they are many."""
    commands = [command for cure in cures for command in cure.commands]
    if len(commands) <= ONE_BY_ONE:
        return lines(commands)
    return lines(
        commands[:ONE_BY_ONE],
        "and so on for each; all of them at once:",
        f"pyromq doctor{survey.at} --only {check} --json | jq -r '.findings[].facts.commands[]' | sh",
    )


def facts_of(cures: Sequence[Cure]) -> dict[str, list[str]]:
    """Return the topics and the commands for programs."""
    return {
        "topics": [cure.topic for cure in cures],
        "commands": [command for cure in cures for command in cure.commands],
    }


def queue_words(configs: Mapping[str, TopicConfig]) -> str:
    """Return how many queues a topic has on each broker."""
    return ", ".join(
        f"{config.write_queue_nums} on {broker}"
        if config.write_queue_nums == config.read_queue_nums
        else f"{config.write_queue_nums} to write and {config.read_queue_nums} to read on {broker}"
        for broker, config in configs.items()
    )


def update_command(survey: Survey, topic: TopicConfig, broker: BrokerSnapshot) -> str:
    """Return the command that gives a broker a topic just so."""
    return (
        f"pyromq admin updateTopic{survey.at} -b {broker.address} -t {shlex.quote(topic.topic_name)} "
        f"-r {topic.read_queue_nums} -w {topic.write_queue_nums} -p {topic.perm & _READ_AND_WRITE}"
        f"{' -o true' if topic.order else ''}"
    )


def _all_said(survey: Survey) -> bool:
    """Whether every master said which topics it has."""
    return bool(survey.masters) and len(_answering(survey)) == len(survey.masters)


def _answering(survey: Survey) -> dict[str, BrokerSnapshot]:
    said = {broker for configs in survey.topics.values() for broker in configs}
    return {one.broker_name: one for one in survey.masters if one.broker_name in said}


def _clusters(survey: Survey) -> dict[str, dict[str, BrokerSnapshot]]:
    """Return the masters that said which topics they have, by their clusters and names."""
    found: dict[str, dict[str, BrokerSnapshot]] = {}
    for name, broker in _answering(survey).items():
        found.setdefault(broker.cluster, {})[name] = broker
    return found


def _create(survey: Survey, config: TopicConfig, broker: BrokerSnapshot) -> str:
    is_plain = config.read_queue_nums == config.write_queue_nums and config.perm == _READ_AND_WRITE
    if not is_plain:
        return update_command(survey, config, broker)
    return _create_command(survey, config, config.write_queue_nums, broker)


def _create_command(survey: Survey, config: TopicConfig, queue_count: int, broker: BrokerSnapshot) -> str:
    return (
        f"pyromq topic create {shlex.quote(config.topic_name)}{survey.at} --queues {queue_count} "
        f"--broker {broker.address}{' --ordered' if config.order else ''}"
    )


def _cured(
    survey: Survey, masters: Mapping[str, BrokerSnapshot], configs: Mapping[str, TopicConfig], name: str
) -> Cure:
    """Return the commands that give a topic as many queues everywhere as it has anywhere: none is lost."""
    most = max(max(config.read_queue_nums, config.write_queue_nums) for config in configs.values())
    return Cure(
        name,
        tuple(
            _create_command(survey, config, most, masters[broker])
            for broker, config in configs.items()
            if (config.read_queue_nums, config.write_queue_nums) != (most, most)
        ),
    )


def _nowhere(survey: Survey, name: str) -> Finding:
    return Finding(
        Severity.PROBLEM,
        f"topic {name}",
        f"topic {name} is on no broker",
        "nobody can read it; a send fails, unless a broker may make topics at their first message",
        lines(
            meant(name, filter(is_users_topic, survey.topics)),
            "if it is, create it:",
            f"pyromq topic create {shlex.quote(name)}{survey.at}",
        ),
        {"topics": [name]},
    )


def _partial(
    cluster: str, there: Sequence[str], absent: Sequence[str], cures: Sequence[Cure], survey: Survey
) -> Finding:
    verb = "is" if len(cures) == 1 else "are"
    return Finding(
        Severity.WARNING,
        subject_of(cures),
        f"{named(cures)} {verb} on {both(there)} and not on {both(absent)} of cluster {cluster}",
        f"sends fail while {both(there)} cannot take them, and {both(absent)} has none of the load; a topic "
        "that its first message makes begins on one broker",
        remedy("topics", cures, survey),
        {"cluster": cluster, "on": list(there), "missing_on": list(absent), **facts_of(cures)},
    )


def _shown(survey: Survey, cures: Sequence[Cure]) -> str:
    shown = survey.topics[cures[0].topic]
    known = {broker: shown[broker] for broker in sorted(shown)}
    return queue_words(known) if len(cures) == 1 else f"{cures[0].topic}: {queue_words(known)}"


def _has(cures: Sequence[Cure]) -> str:
    return "has" if len(cures) == 1 else "have"


def _unread(survey: Survey, cures: Sequence[Cure]) -> Finding:
    return Finding(
        Severity.PROBLEM,
        subject_of(cures),
        f"{named(cures)} {_has(cures)} queues that are written and not read ({_shown(survey, cures)})",
        "messages that producers send to the queues beyond those that are read reach nobody",
        remedy("queues", cures, survey),
        facts_of(cures),
    )


def _uneven(survey: Survey, cures: Sequence[Cure]) -> Finding:
    return Finding(
        Severity.WARNING,
        subject_of(cures),
        f"{named(cures)} {_has(cures)} more queues on one broker than on another ({_shown(survey, cures)})",
        "brokers get shares of its messages by their queues, so the load is not even",
        remedy("queues", cures, survey),
        facts_of(cures),
    )


def _shrunk(survey: Survey, cures: Sequence[Cure]) -> Finding:
    return Finding(
        Severity.NOTE,
        subject_of(cures),
        f"{named(cures)} {_has(cures)} queues that are read and no more written ({_shown(survey, cures)})",
        "it is being shrunk: consumers keep the queues until what is left in them is read",
        lines(
            "when every group has read them, as this shows, take them away with updateTopic -r:",
            f"pyromq topic show {shlex.quote(cures[0].topic)}{survey.at}",
        ),
        {"topics": [cure.topic for cure in cures]},
    )


TOPICS = Check("topics", "topics that are on some brokers of a cluster only", topics)
QUEUES = Check("queues", "topics with uneven queues, or queues that nobody reads", queues)
