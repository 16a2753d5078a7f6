"""Tells the members of a group that members came or went, so that they share the queues anew."""

from collections.abc import Iterable

from pyromq.broker.groups.clients import ConsumerGroup, MemberLink
from pyromq.broker.groups.groups import GroupTable
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
        self._send(group.name, group.links, group.name)

    def warn(self, group: str, links: Iterable[MemberLink], text: str) -> None:
        """Have clients log a warning about their group.

        The protocol has no request for it. But Java's clients log the group's name as they are sent it here,
        and all that any client does then is to share its queues anew; ours sends a heartbeat, whose answer
        has the text too.
        """
        self._send(group, links, f"{group} (WARNING: {text})")

    def _send(self, group: str, links: Iterable[MemberLink], said: str) -> None:
        if not self._settings.notify_consumer_ids_changed_enable:
            return
        config = self._groups.find(group)
        if config is not None and not config.notify_consumer_ids_changed_enable:
            return
        for link in links:
            link.oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": said}))
