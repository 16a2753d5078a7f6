"""Shares of the members of a group in a topic's queues (400), and the modes that operators set (401, 402)."""

import logging
from collections.abc import Awaitable

from pyromq.broker.groups.assignments import assigned
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.topics.intake import FAQ
from pyromq.broker.topics.topic_names import RETRY_PREFIX
from pyromq.broker.topics.topic_routes import TopicRoutes
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import ResponseCode
from pyromq.config.choices import MessageRequestMode
from pyromq.config.pop_settings import PopSettings
from pyromq.errors import NoPermission, Refused, TopicNotFound
from pyromq.model import MessageQueue
from pyromq.net.routes import Answer, Request
from pyromq.wire.bodies.heartbeat_bodies import MessageModel
from pyromq.wire.bodies.pop_bodies import (
    AssignmentQuestion,
    QueueAssignment,
    decode_assignment_question,
    encode_assignments,
)
from pyromq.wire.bodies.request_mode_bodies import RequestModeSetting, decode_request_mode

log = logging.getLogger(__name__)


class AssignmentHandlers:
    """Answers 400, 401 and 402."""

    def __init__(
        self, *, topics: TopicTable, groups: Groups, routes: TopicRoutes, settings: PopSettings
    ) -> None:
        self._topics = topics
        self._groups = groups.table
        self._consumers = groups.consumers
        self._modes = groups.request_modes
        self._routes = routes
        self._settings = settings

    def query_assignment(self, request: Request[None]) -> Awaitable[Answer]:
        """Answer which queues of a topic a member is to read, on all brokers, and how."""
        return self._answer(decode_assignment_question(request.body))

    async def _answer(self, query: AssignmentQuestion) -> Answer:
        setting = self._setting(query.topic, query.consumer_group)
        queues = self._share(query, setting, await self._routes.readable_queues(query.topic))
        assignments = (
            None if queues is None else [QueueAssignment(queue=queue, mode=setting.mode) for queue in queues]
        )
        return Answer(body=encode_assignments(assignments))

    def _setting(self, topic: str, group: str) -> RequestModeSetting:
        known = self._modes.get(topic, group)
        if known is not None:
            return known
        is_retry = topic.startswith(RETRY_PREFIX)
        return RequestModeSetting(
            topic=topic,
            consumer_group=group,
            # The retries of those that pull: they send them back, and pull them from there.
            mode=MessageRequestMode.PULL if is_retry else self._settings.default_message_request_mode,
            pop_share_queue_num=self._settings.default_pop_share_queue_num,
        )

    def _share(
        self, query: AssignmentQuestion, setting: RequestModeSetting, queues: list[MessageQueue] | None
    ) -> list[MessageQueue] | None:
        """Return a member's queues; None: it is to keep what it has, for nothing is known."""
        if queues is None:
            return None
        is_shared = self._settings.server_load_balancer_enable
        if query.message_model == MessageModel.BROADCASTING or not is_shared:
            return queues
        members = self._consumers.get(query.consumer_group)
        if members is None:
            return None
        return assigned(
            queues, members.client_ids, query.client_id, strategy=query.strategy_name, setting=setting
        )

    async def set_request_mode(self, request: Request[None]) -> Answer:
        """Note how the members of a group are to consume a topic; the answer comes when it is on disk."""
        setting = decode_request_mode(request.body)
        topic, group = setting.topic, setting.consumer_group
        if topic.startswith(RETRY_PREFIX):
            raise NoPermission(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._topics.get(topic) is None:
            raise TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        if self._groups.find(group) is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{group}] does not exist, {FAQ}",
            )
        self._modes.put(setting)
        await self._groups.save()
        await self._modes.save()
        log.info("%s lets group %s consume %s by %s", request.link.peer, group, topic, setting.mode)
        return Answer()

    def all_request_modes(self, _request: Request[None]) -> Answer:
        """Answer what was said of all topics and groups, for slaves."""
        return Answer(body=self._modes.encode())
