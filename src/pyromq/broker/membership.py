"""Tells the members of a group that members came or went, so that they share the queues anew."""

from pyromq.broker.clients import ConsumerGroup
from pyromq.broker.groups import GroupTable
from pyromq.codes import RequestCode
from pyromq.config.settings import BrokerSettings
from pyromq.wire.command import Command


class Membership:
    """Sends NOTIFY_CONSUMER_IDS_CHANGED where the settings and the group's configuration want it."""

    def __init__(self, groups: GroupTable, settings: BrokerSettings) -> None:
        self._groups = groups
        self._settings = settings

    def notify(self, group: ConsumerGroup) -> None:
        """Tell every member of the group, the new one too."""
        if not self._settings.notify_consumer_ids_changed_enable:
            return
        config = self._groups.find(group.name)
        if config is not None and not config.notify_consumer_ids_changed_enable:
            return
        for link in group.links:
            link.oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": group.name}))
