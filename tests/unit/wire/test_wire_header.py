"""Typed headers, and which belongs to which code."""

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest
from route_listing import headers_by_code

from pyromq.errors import HeaderError
from pyromq.wire import headers
from pyromq.wire.header import Header, read_header, write_header
from pyromq.wire.headers.offset_headers import QueryConsumerOffset
from pyromq.wire.headers.pull_headers import PullMessage
from pyromq.wire.headers.send_headers import SendMessage, SendMessageV2

HEADERS = headers_by_code()
#: wire.md §3: tier 1, and the name server's codes of tier 2.
TIER_1 = {
    *(105, 10, 310, 320, 324, 325, 11, 361, 12, 14, 15, 17, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42),
    *(46, 39, 40, 220, 221, 307, 309, 326, 103, 104, 322),
}
NAME_SERVER = {100, 101, 102, 106, 205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319, 327}

SEND = SendMessage(
    producer_group="pg",
    topic="T",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=-1,
    sys_flag=0,
    born_timestamp=1794770446747,
    flag=0,
    properties="TAGS\x01A",
    batch=True,
    max_reconsume_times=16,
)


def test_every_code_of_the_first_tier_and_of_the_name_server_has_headers() -> None:
    assert {int(code) for code in HEADERS} >= TIER_1 | NAME_SERVER


@pytest.mark.parametrize("header_type", {headers.request for headers in HEADERS.values()})
def test_a_header_without_its_required_fields_names_the_first(header_type: type[SendMessage]) -> None:
    required = [field.encode_name for field in msgspec.structs.fields(header_type) if field.required]
    if not required:
        assert write_header(read_header(header_type, None)) is not None
        return

    with pytest.raises(HeaderError, match=required[0]):
        read_header(header_type, {})


def test_fields_travel_as_text_and_none_is_left_out() -> None:
    ext = write_header(SEND)

    assert ext["queueId"] == "-1"
    assert ext["unitMode"] == "false"
    assert ext["batch"] == "true"
    assert "reconsumeTimes" not in ext


def test_a_header_comes_back_as_it_went() -> None:
    assert read_header(SendMessage, write_header(SEND)) == SEND


def test_a_send_is_the_same_under_long_and_short_names() -> None:
    short = SendMessageV2.from_v1(SEND)

    assert write_header(short)["i"] == "TAGS\x01A"
    assert short.to_v1() == SEND


@pytest.mark.parametrize(
    "value", ["", "x", "1.5", "2147483648", "-2147483649", "1" * 100, "١", "0x1", " 1", "1_0"]
)
def test_a_number_that_does_not_read_is_named(value: str) -> None:
    with pytest.raises(HeaderError, match="queueId"):
        read_header(QueryConsumerOffset, {"consumerGroup": "g", "topic": "T", "queueId": value})


def test_unknown_fields_are_ignored() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "3", "bname": "broker-a", "lo": "false"}

    assert read_header(QueryConsumerOffset, ext).queue_id == 3


def test_booleans_may_be_ones_and_zeros_as_the_cpp_client_sends_them() -> None:
    ext = write_header(SEND) | {"batch": "0", "unitMode": "1"}

    header = read_header(SendMessage, ext)

    assert (header.batch, header.unit_mode) == (False, True)


def test_fast_headers_keep_their_order_and_others_have_that_of_a_java_map() -> None:
    pull = PullMessage(
        consumer_group="g",
        topic="T",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=0,
        commit_offset=0,
        suspend_timeout_millis=15000,
        sub_version=0,
    )

    assert list(write_header(pull))[:3] == ["consumerGroup", "topic", "queueId"]
    assert list(write_header(QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0))) == [
        "queueId",
        "topic",
        "consumerGroup",
    ]


# Limits ----------------------------------------------------------------------------------------------------

#: What brokers send to clients, and what is refused by a handler in RocketMQ's own words.
NOT_FOR_SERVERS = {"NotifyConsumerIdsChanged", "PushReplyMessage"}
REFUSED_LATER = {
    *((name, field) for name in ("SendMessage", "SendMessageV2") for field in ("topic", "properties")),
    ("UpdateAndCreateTopic", "topic"),
}


def all_requests() -> Iterator[type[Header]]:
    for module in pkgutil.iter_modules(headers.__path__):
        importlib.import_module(f"{headers.__name__}.{module.name}")
    for header in Header.__subclasses__():
        is_answer = header.__name__.endswith("Answer") or header.__name__ in NOT_FOR_SERVERS
        if header.__module__.startswith(headers.__name__) and not is_answer:
            yield header


def is_bounded(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return all(map(is_bounded, kind.types))
    return not isinstance(kind, msgspec.inspect.StrType) or kind.max_length is not None


@pytest.mark.row("SC-09")
@pytest.mark.parametrize("header", list(all_requests()), ids=lambda header: header.__name__)
def test_every_text_that_a_request_brings_has_a_limit(header: type[Header]) -> None:
    kind = msgspec.inspect.type_info(header)
    assert isinstance(kind, msgspec.inspect.StructType)
    endless = {
        (header.__name__, field.name) for field in kind.fields if not is_bounded(field.type)
    } - REFUSED_LATER

    assert not endless, "give it a type of pyromq.wire.header"


def test_a_text_over_its_limit_is_refused_with_its_name() -> None:
    fields = {"consumerGroup": "g" * 256, "topic": "t", "queueId": "0"}

    with pytest.raises(HeaderError, match=r"QueryConsumerOffset: .*length <= 255.*consumerGroup"):
        read_header(QueryConsumerOffset, fields)
