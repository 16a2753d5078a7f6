"""Modes in which groups consume topics: one that an operator sets (401), and the table of all (402).

401  {"consumerGroup":…,"mode":"POP","popShareQueueNum":0,"topic":…}
402  {"messageRequestModeMap":{topic:{group:{…}}}}, which is also `messageRequestMode.json`
"""

from collections.abc import Mapping

import msgspec

from pyromq.config.choices import MessageRequestMode
from pyromq.wire.bodies.body import Body, read_body
from pyromq.wire.header import GroupName, Int32, TopicName
from pyromq.wire.java_json import dumps


class RequestModeSetting(Body, kw_only=True, frozen=True):
    """The mode in which the members of a group consume a topic.

    `pop_share_queue_num` is for POP: with how many members each shares its queues; 0 or less: with all.
    """

    topic: TopicName
    consumer_group: GroupName
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: Int32 = 0


class _RequestModes(Body, kw_only=True, frozen=True):
    message_request_mode_map: dict[str, dict[str, RequestModeSetting]] = msgspec.field(default_factory=dict)


def encode_request_mode(setting: RequestModeSetting) -> bytes:
    """Return the body of 401."""
    return dumps(setting)


def decode_request_mode(data: bytes) -> RequestModeSetting:
    """Return what the body of 401 says."""
    return read_body(RequestModeSetting, data)


def encode_request_modes(
    table: Mapping[str, Mapping[str, RequestModeSetting]], *, pretty: bool = False
) -> bytes:
    """Return the table's JSON: by topic, then by group."""
    return dumps({"messageRequestModeMap": table}, pretty=pretty)


def decode_request_modes(data: bytes) -> dict[str, dict[str, RequestModeSetting]]:
    """Return the table that JSON says."""
    return read_body(_RequestModes, data).message_request_mode_map
