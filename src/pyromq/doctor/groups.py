"""The groups' part of a survey: who is in them, what members do, and how far they are, twice."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyromq.client.aio.asking import Asker
from pyromq.codes import RequestCode
from pyromq.errors import PyroError
from pyromq.wire.bodies.groups import SubscriptionGroupConfig, decode_group_table

if TYPE_CHECKING:
    from pyromq.doctor.survey import BrokerSeen, Survey, Tell


@dataclass(slots=True)
class GroupsSeen:
    """The consumer groups as they were seen."""

    #: Each group's configs by the names of the masters that have it.
    configs: dict[str, dict[str, SubscriptionGroupConfig]] = field(default_factory=dict)
    #: The topics that the groups of the scope read.
    topics: set[str] = field(default_factory=set)


async def look_at_groups(asker: Asker, survey: "Survey", tell: "Tell") -> None:
    """Ask masters for their groups, and how these are."""
    for broker in survey.masters:
        if broker.failure is None:
            await _ask_configs(asker, survey, broker)


async def look_at_groups_again(asker: Asker, survey: "Survey", tell: "Tell") -> None:
    """Ask once more for what moves, after the watch."""


async def _ask_configs(asker: Asker, survey: "Survey", broker: "BrokerSeen") -> None:
    try:
        answer = await asker.ask(broker.place.address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    except PyroError as error:
        survey.could_not.append(f"list the groups of {broker.name}: {error}")
        return
    for name, config in decode_group_table(answer.body).subscription_group_table.items():
        survey.groups.configs.setdefault(name, {})[broker.place.broker_name] = config
