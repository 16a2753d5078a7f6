import zlib

import pytest

from pyromq.client.names import check_group
from pyromq.client.producer.outgoing import prepare, prepare_batch
from pyromq.codes import SysFlag
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError, MessageIllegal
from pyromq.model import Message
from pyromq.wire import properties
from pyromq.wire.batch import decode_batch

SETTINGS = ClientSettings()


@pytest.mark.row("MM-01")
def test_tags_keys_and_wait_are_properties_and_keys_are_separated_by_spaces() -> None:
    message = Message("t", b"x", tags="paid", keys=["k1", "k2"], properties={"own": "1"}, wait_stored=False)

    pairs = properties.decode(prepare(message, "ID", SETTINGS).properties)

    assert pairs == {"TAGS": "paid", "KEYS": "k1 k2", "own": "1", "WAIT": "false", "UNIQ_KEY": "ID"}


@pytest.mark.row("MM-09")
def test_a_delay_level_is_a_property_and_none_is_none() -> None:
    delayed = properties.decode(prepare(Message("t", b"x", delay_level=3), "ID", SETTINGS).properties)
    at_once = properties.decode(prepare(Message("t", b"x"), "ID", SETTINGS).properties)

    assert delayed["DELAY"] == "3"
    assert "DELAY" not in at_once


def test_a_message_that_has_a_unique_key_keeps_it() -> None:
    outgoing = prepare(Message("t", b"x", properties={"UNIQ_KEY": "OLD"}), "NEW", SETTINGS)

    assert outgoing.message_id == "OLD"


@pytest.mark.row("MM-05")
@pytest.mark.parametrize(("size", "is_compressed"), [(4095, False), (4096, True), (100_000, True)])
def test_bodies_from_four_kib_on_are_compressed_and_say_so(size: int, is_compressed: bool) -> None:
    body = b"a" * size

    outgoing = prepare(Message("t", body), "ID", SETTINGS)

    if is_compressed:
        assert outgoing.sys_flag == SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
        assert outgoing.body == zlib.compress(body, 5)
    else:
        assert (outgoing.sys_flag, outgoing.body) == (0, body)


@pytest.mark.row("MM-08")
@pytest.mark.parametrize(("value", "is_prepared"), [("true", True), ("false", False)])
def test_a_half_message_is_marked_as_prepared(value: str, is_prepared: bool) -> None:
    outgoing = prepare(Message("t", b"x", properties={"TRAN_MSG": value}), "ID", SETTINGS)

    assert bool(outgoing.sys_flag & SysFlag.TRANSACTION_PREPARED) is is_prepared


@pytest.mark.row("MM-07")
@pytest.mark.parametrize("message", [Message("", b"x"), Message("  ", b"x"), Message("t", b"")])
def test_topic_and_body_must_not_be_empty(message: Message) -> None:
    with pytest.raises(MessageIllegal, match="empty"):
        prepare(message, "ID", SETTINGS)


@pytest.mark.parametrize("topic", ["a b", "a/b", "ä", "a.b", "a\n"])
def test_a_topic_has_only_the_letters_that_rocketmq_allows(topic: str) -> None:
    with pytest.raises(MessageIllegal, match="may have only"):
        prepare(Message(topic, b"x"), "ID", SETTINGS)


def test_a_topic_has_at_most_127_characters() -> None:
    assert prepare(Message("t" * 127, b"x"), "ID", SETTINGS).topic
    with pytest.raises(MessageIllegal, match="127"):
        prepare(Message("t" * 128, b"x"), "ID", SETTINGS)


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"])
def test_the_broker_s_own_topics_are_not_sent_to(topic: str) -> None:
    with pytest.raises(MessageIllegal, match=topic):
        prepare(Message(topic, b"x"), "ID", SETTINGS)


@pytest.mark.row("MM-05", "MM-06")
def test_a_body_over_four_mib_is_refused_however_well_it_would_compress() -> None:
    limit = 4 * 1024 * 1024

    assert prepare(Message("t", bytes(limit)), "ID", SETTINGS).sys_flag & SysFlag.COMPRESSED
    with pytest.raises(MessageIllegal, match="4194304"):
        prepare(Message("t", bytes(limit + 1)), "ID", SETTINGS)


def test_text_as_a_body_is_refused_with_the_way_out() -> None:
    with pytest.raises(MessageIllegal, match=r"\.encode\(\)"):
        prepare(Message("t", "text"), "ID", SETTINGS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "way_out"),
    [
        (b"x", r"send Message\(topic, body\)"),
        (Message("t", b"x", tags=["paid"]), "tags='paid'"),  # type: ignore[arg-type]
        (Message("t", b"x", properties={"a": 1}), r"use str\("),  # type: ignore[dict-item]
        (Message("t", b"x", properties={1: "a"}), r"use str\("),  # type: ignore[dict-item]
    ],
)
def test_what_is_of_the_wrong_type_is_refused_with_the_way_out(message: Message, way_out: str) -> None:
    with pytest.raises(MessageIllegal, match=way_out):
        prepare(message, "ID", SETTINGS)


@pytest.mark.parametrize("name", ["TAGS", "KEYS", "DELAY", "WAIT"])
def test_a_property_that_a_field_stands_for_is_refused(name: str) -> None:
    with pytest.raises(MessageIllegal, match=r"Message\("):
        prepare(Message("t", b"x", properties={name: "1"}), "ID", SETTINGS)


@pytest.mark.parametrize("name", ["REAL_TOPIC", "RETRY_TOPIC", "CLUSTER", "MIN_OFFSET"])
def test_a_property_of_the_brokers_is_refused(name: str) -> None:
    with pytest.raises(MessageIllegal, match=name):
        prepare(Message("t", b"x", properties={name: "1"}), "ID", SETTINGS)


@pytest.mark.parametrize("pair", [("", "1"), ("a", ""), ("a\x01", "1"), ("a", "1\x02")])
def test_a_property_that_would_not_arrive_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(MessageIllegal):
        prepare(Message("t", b"x", properties=dict([pair])), "ID", SETTINGS)


def test_properties_have_at_most_32767_bytes() -> None:
    with pytest.raises(MessageIllegal, match="32767"):
        prepare(Message("t", b"x", properties={"a": "ä" * 20_000}), "ID", SETTINGS)


def test_a_key_has_no_space() -> None:
    with pytest.raises(MessageIllegal, match="space"):
        prepare(Message("t", b"x", keys=["a b"]), "ID", SETTINGS)


@pytest.mark.row("BA-01")
def test_a_batch_is_its_messages_one_behind_the_other() -> None:
    messages = [Message("t", b"1", tags="a", flag=5), Message("t", b"2" * 9_000)]

    outgoing = prepare_batch(messages, ["U1", "U2"], SETTINGS)

    units = decode_batch(outgoing.body)
    assert [(unit.flag, unit.body) for unit in units] == [(5, b"1"), (0, b"2" * 9_000)]
    assert [properties.decode(unit.properties)["UNIQ_KEY"] for unit in units] == ["U1", "U2"]
    assert (outgoing.is_batch, outgoing.sys_flag, outgoing.message_id) == (True, 0, "U1,U2")
    assert properties.decode(outgoing.properties) == {"WAIT": "true"}


@pytest.mark.row("BA-02")
def test_a_unit_s_properties_have_at_most_32767_bytes() -> None:
    with pytest.raises(MessageIllegal, match="32767"):
        prepare_batch([Message("t", b"x", properties={"a": "x" * 32_768})], ["U"], SETTINGS)


@pytest.mark.row("BA-03", "MM-09")
@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "empty"),
        ([Message("t", b"1"), Message("u", b"2")], "one topic"),
        ([Message("t", b"1"), Message("t", b"2", wait_stored=False)], "wait_stored"),
        ([Message("t", b"1", delay_level=1)], "delayed"),
        ([Message("t", b"1", properties={"__STARTDELIVERTIME": "1"})], "delayed"),
        ([Message("t", b"1", properties={"TRAN_MSG": "true"})], "transaction"),
        ([Message("%RETRY%g", b"1")], "retry topic"),
        ([Message("t", b"")], "empty"),
    ],
)
def test_a_batch_that_breaks_a_rule_is_refused(messages: list[Message], reason: str) -> None:
    with pytest.raises(MessageIllegal, match=reason):
        prepare_batch(messages, ["U"] * len(messages), SETTINGS)


@pytest.mark.row("BA-04", "BA-06")
def test_a_batch_over_four_mib_is_refused_with_the_way_out() -> None:
    messages = [Message("t", bytes(1024 * 1024))] * 4

    with pytest.raises(MessageIllegal, match="in parts"):
        prepare_batch(messages, ["U"] * 4, SETTINGS)
    assert prepare_batch(messages[:3], ["U"] * 3, SETTINGS)


@pytest.mark.row("PR-02")
@pytest.mark.parametrize("group", ["", " ", "a b", "g" * 256, "ä", "DEFAULT_PRODUCER"])
def test_a_group_s_name_is_checked(group: str) -> None:
    with pytest.raises(ConfigError, match="group"):
        check_group(group)
