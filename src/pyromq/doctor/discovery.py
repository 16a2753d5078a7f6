"""Which groups there are: those that brokers have, and those that clients use all the same.

A broker that makes no groups at their first use (autoCreateSubscriptionGroup=false) lets members of any group
connect, and refuses their pulls; and a group that was deleted may leave its progress behind. No list has
these: they are found by the table of all progress (43), and by who reads each topic (300). The latter only
where groups are not made at first use: elsewhere a group that has members is soon on the list.
"""

from pyromq.client.aio.asking import Asker
from pyromq.codes import RequestCode
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.survey import BrokerSeen, Survey, Tell, together
from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_group
from pyromq.wire.bodies.groups import decode_group_table
from pyromq.wire.bodies.offsets import GroupProgress, decode_group_offsets
from pyromq.wire.bodies.operations import decode_group_names
from pyromq.wire.headers.operations import QueryTopicConsumeByWho

#: Topics whose readers are asked for.
READERS_MAX = 2_000


async def find_groups(asker: Asker, survey: Survey, tell: Tell) -> dict[str, GroupSeen]:
    """Return the groups of the scope by name, each with the brokers that may know something of it."""
    there = survey.answering
    await together(tell, "groups", (_ask_configs(asker, survey, broker) for broker in there))
    configs = survey.groups.configs
    if names := survey.scope.groups:
        everywhere = {broker.place.broker_name for broker in there}
        return {name: GroupSeen(name, configs.get(name, {}), set(everywhere)) for name in sorted(set(names))}
    places = {name: set(of_brokers) for name, of_brokers in configs.items()}
    await _look_for_others(asker, survey, there, places, tell)
    return {
        name: GroupSeen(name, configs.get(name, {}), places[name])
        for name in sorted(places)
        if is_users_group(name)
    }


async def read_progress(asker: Asker, broker: BrokerSeen) -> dict[str, dict[MessageQueue, GroupProgress]]:
    """Return how far groups are at a broker, those that it does not have as well; not where queues end."""
    answer = await asker.ask(broker.place.address, RequestCode.GET_ALL_CONSUMER_OFFSET)
    found: dict[str, dict[MessageQueue, GroupProgress]] = {}
    for key, offsets in decode_group_offsets(answer.body).items():
        topic, _, group = key.rpartition("@")
        for queue_id, offset in offsets.items():
            queue = MessageQueue(topic, broker.place.broker_name, queue_id)
            found.setdefault(group, {})[queue] = GroupProgress(broker_offset=offset, consumer_offset=offset)
    return found


async def _ask_configs(asker: Asker, survey: Survey, broker: BrokerSeen) -> None:
    try:
        answer = await asker.ask(broker.place.address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    except PyroError as error:
        survey.could_not.append(f"list the groups of {broker.name}: {error}")
        return
    survey.groups.listing.add(broker.place.broker_name)
    for name, config in decode_group_table(answer.body).subscription_group_table.items():
        survey.groups.configs.setdefault(name, {})[broker.place.broker_name] = config


async def _look_for_others(
    asker: Asker, survey: Survey, there: list[BrokerSeen], places: dict[str, set[str]], tell: Tell
) -> None:
    async def ask_progress(broker: BrokerSeen) -> None:
        try:
            known = await read_progress(asker, broker)
        except PyroError as error:
            survey.could_not.append(f"see the progress of groups that {broker.name} does not have: {error}")
            return
        for name in known:
            places.setdefault(name, set()).add(broker.place.broker_name)

    async def ask_readers(broker: BrokerSeen, topic: str) -> None:
        header = QueryTopicConsumeByWho(topic=topic)
        try:
            answer = await asker.ask(broker.place.address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        except PyroError as error:
            survey.could_not.append(f"see who reads topic {topic} at {broker.name}: {error}")
            return
        for name in decode_group_names(answer.body):
            places.setdefault(name, set()).add(broker.place.broker_name)

    await together(tell, "progress", (ask_progress(broker) for broker in there))
    asked = [
        ask_readers(broker, topic)
        for broker in there
        if not broker.makes_groups
        for topic, on in list(survey.users_topics.items())[:READERS_MAX]
        if broker.place.broker_name in on
    ]
    await together(tell, "readers", asked)
