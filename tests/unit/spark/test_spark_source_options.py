"""The options of a read: each one read, each bad one named with the next step."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyspark_rocketmq.source.columns import KAFKA, ROCKETMQ
from pyspark_rocketmq.source.places import Offsets, Times, key_of, queue_of
from pyspark_rocketmq.source.source_options import (
    NAMES,
    BatchLimits,
    End,
    OnLoss,
    SourceOptions,
    Tasks,
    read_batch_options,
    read_stream_options,
)

QUEUE = MessageQueue("orders", "broker-a", 1)


def batch(**options: str) -> SourceOptions:
    given = {"nameServer": "ns:9876", "subscribe": "orders", **options}
    return read_batch_options({name.lower(): value for name, value in given.items() if value})


def stream(**options: str) -> SourceOptions:
    given = {"nameServer": "ns:9876", "subscribe": "orders", **options}
    return read_stream_options({name.lower(): value for name, value in given.items() if value})


def test_a_batch_reads_all_and_a_stream_what_comes() -> None:
    assert (batch().start, batch().end, stream().start) == (End.EARLIEST, End.LATEST, End.LATEST)
    assert batch().on_loss is OnLoss.FAIL
    assert stream().admission == BatchLimits()
    assert batch().tasks == Tasks()


def test_kafka_s_names_are_understood() -> None:
    read = read_stream_options(
        {
            "kafka.bootstrap.servers": "a:9876,b:9876",
            "subscribe": "one, two",
            "maxoffsetspertrigger": "5",
            "minoffsetspertrigger": "2",
            "maxtriggerdelay": "30s",
            "kafka.group.id": "billing",
            "failondataloss": "false",
            "minpartitions": "3",
            "fetchoffset.numretries": "0",
        }
    )

    assert read.connection.name_server == "a:9876;b:9876"
    assert read.choice.topics == ("one", "two")
    assert read.admission == BatchLimits(5, 2, None, 30_000)
    assert (read.group, read.on_loss, read.tasks) == ("billing", OnLoss.IGNORE, Tasks(3))
    assert read.retries.count == 0


def test_connections_have_keys_and_tls() -> None:
    read = batch(accessKey="me", secretKey="hidden", tls="true", tlsTrustCertPath="/ca.pem")

    settings = read.connection.settings()
    assert (settings.access_key, settings.secret_key, settings.use_tls) == ("me", "hidden", True)
    assert (settings.tls_client_auth_server, settings.tls_client_trust_cert_path) == (True, "/ca.pem")
    assert "hidden" not in repr(read)


@pytest.mark.parametrize(
    ("value", "at_ms"),
    [
        ("1762300800000", 1_762_300_800_000),
        ("2025-11-05T00:00:00Z", 1_762_300_800_000),
        ("2025-11-05T01:00:00.250+01:00", 1_762_300_800_250),
        ("2025-11-05", 1_762_300_800_000),
    ],
)
def test_times_are_iso_8601_or_milliseconds(value: str, at_ms: int) -> None:
    start = batch(startingTimestamp=value).start

    assert isinstance(start, Times)
    assert start.get(QUEUE) == at_ms


@pytest.mark.parametrize(
    "value",
    [
        '{"orders": {"1": 7}}',
        '{"orders": {"broker-a": {"1": 7}}}',
        '{"orders": {"1": 3, "broker-a": {"1": 7}}}',
        '{"v": 1, "inc": {}, "at": {}, "q": {"orders/broker-a/1": 7}}',
    ],
)
def test_offsets_come_in_four_forms(value: str) -> None:
    start = batch(startingOffsets=value).start

    assert isinstance(start, Offsets)
    assert start.get(QUEUE) == 7
    assert start.get(MessageQueue("orders", "broker-a", 2)) is None


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("64k", 65_536), ("2m", 2 << 20), ("1GiB", 1 << 30)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert stream(maxBytesPerTrigger=text).admission.bytes_max == size


def test_a_queue_s_name_is_read_back() -> None:
    queue = MessageQueue("orders", "broker/with/slashes", 3)

    assert queue_of(key_of(queue)) == queue
    with pytest.raises(ConfigError, match="orders/broker-a/0"):
        queue_of("orders/0")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"nameServer": ""}, "needs .option('nameServer', …), for example '127.0.0.1:9876'"),
        (
            {"subscribe": ""},
            "needs .option('subscribe', 'orders') to know what to read; or one of subscribeP",
        ),
        ({"nameServr": "x"}, "has no option 'nameservr'; did you mean 'nameServer'?"),
        ({"maxmessagepertrigger": "1"}, "did you mean 'maxMessagesPerTrigger'?"),
        ({"qqqq": "1"}, "has no option 'qqqq'; it has nameServer, subscribe"),
        ({"topic": "other"}, "subscribe was given twice"),
        ({"assign": '{"orders": [0]}'}, "subscribe and assign were given together; give one of"),
        ({"subscribe": "", "assign": "[1]"}, "assign is '[1]'; it looks like"),
        ({"subscribe": "", "assign": '{"orders": ["a"]}'}, "assign: the queues of 'orders' are ['a']"),
        ({"subscribe": "", "subscribePattern": "("}, "which is no regular expression"),
        ({"subscribe": "", "dlq": "a b"}, "dlq is 'a b'"),
        (
            {"startingOffsets": "first"},
            "startingOffsets is 'first'; it can be 'earliest', 'latest', 'group', or",
        ),
        ({"startingOffsets": "{1"}, "which is no JSON"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "offsets begin at 0, -2 is the first"),
        ({"startingOffsets": "group"}, "say whose progress with .option('groupId', 'billing')"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "were given together"),
        ({"startingTimestamp": "yesterday"}, "it is a time like '2026-11-01T00:00:00Z'"),
        ({"failOnDataLoss": "maybe"}, "it can be 'true', 'false', 'report'"),
        ({"maxMessagesPerTrigger": "5"}, "maxMessagesPerTrigger is for streams; end a batch read with"),
        ({"minPartitions": "0"}, "minPartitions is '0'; it is a whole number, at least 1"),
        ({"minPartitions": "5", "maxPartitions": "2"}, "minPartitions is the smaller"),
        ({"tags": "a", "sql": "b = 1"}, "tags and sql were both given"),
        ({"accessKey": "me"}, "give secretKey too"),
        ({"tlsCertPath": "/x"}, "add .option('tls', 'true')"),
        ({"tls": "yes"}, "it can be 'true' or 'false'"),
        ({"keys": "a", "tags": "b"}, "tags does not go with keys"),
        ({"pullTimeoutMs": "soon"}, "pullTimeoutMs is 'soon'; it is a time like"),
    ],
)
def test_a_bad_option_is_named_with_the_next_step(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        batch(**options)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for batch reads; a stream goes on"),
        ({"keys": "a"}, "keys is for batch reads"),
        ({"maxTriggerDelay": "5s"}, "was given without minMessagesPerTrigger"),
        ({"minMessagesPerTrigger": "5", "maxMessagesPerTrigger": "2"}, "no batch can have both"),
        ({"maxBytesPerTrigger": "lots"}, "it is a number of bytes like"),
        ({"minMessagesPerTrigger": "5", "maxTriggerDelay": "soon"}, "it is a time like '250ms'"),
    ],
)
def test_a_bad_option_of_a_stream_is_named(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        stream(**options)
    assert complaint in str(raised.value)


def test_every_option_and_column_is_in_the_how_to() -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "read-with-spark.md").read_text()

    missing = [name for name in (*NAMES, *ROCKETMQ, *KAFKA) if f"`{name}`" not in page]
    assert missing == []
