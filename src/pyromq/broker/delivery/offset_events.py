"""Leaves a message in OFFSET_MOVED_EVENT whenever a consumer asked for an offset that is not there.

RocketMQ's broker does so for operators who watch that topic.
"""

import logging

from pyromq import system_names
from pyromq.broker.topics.intake import Intake
from pyromq.clock import Clock
from pyromq.errors import Refused
from pyromq.model import MessageQueue
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.headers.pull_headers import PullMessage
from pyromq.wire.java_json import dumps

log = logging.getLogger(__name__)


class OffsetEvents:
    """Writes the events of one broker."""

    def __init__(self, intake: Intake, clock: Clock, *, broker_name: str, store_host: bytes) -> None:
        self._intake = intake
        self._clock = clock
        self._broker_name = broker_name
        self._store_host = store_host

    def moved(self, pull: PullMessage, next_offset: int) -> None:
        """Note that a group asked for one offset and was sent to another."""
        group = pull.consumer_group
        properties = {names.TAGS: group, names.DELAY: "0", names.KEYS: group}
        draft = Draft(
            topic=system_names.OFFSET_MOVED_EVENT,
            queue_id=0,
            body=dumps(
                {
                    "consumerGroup": group,
                    "messageQueue": MessageQueue(pull.topic, self._broker_name, pull.queue_id),
                    "offsetNew": next_offset,
                    "offsetRequest": pull.queue_offset,
                }
            ),
            properties=names.encode(properties),
            flag=0,
            sys_flag=0,
            born_at_ms=self._clock.now_ms(),
            born_host=self._store_host,
            store_host=self._store_host,
        )
        log.warning(
            "group %s asked %s queue %d for offset %d and is sent to %d",
            group,
            pull.topic,
            pull.queue_id,
            pull.queue_offset,
            next_offset,
        )
        try:
            self._intake.put(draft, properties)
        except Refused as refusal:
            log.warning("the event of a moved offset was not stored: %s", refusal)
