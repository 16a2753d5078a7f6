"""The messages of the gRPC protocol: made from our own .proto, with the numbers of RocketMQ's."""

import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from pyromq.wire.grpc import grpc_messages, proto_reader
from pyromq.wire.grpc.grpc_codes import GrpcCode, code_of_remoting
from pyromq.wire.grpc.grpc_messages import (
    Message,
    Resource,
    Settings,
    SystemProperties,
    TelemetryCommand,
)
from pyromq.wire.grpc.grpc_times import duration_of, ms_of, timestamp_of

ROOT = Path(__file__).parents[3]
PROTO = ROOT / "src" / "pyromq" / "wire" / "grpc" / "service.proto"


def proto() -> descriptor_pb2.FileDescriptorProto:
    return proto_reader.read_proto(PROTO.read_text("utf-8"), "service.proto")


def test_a_message_has_the_bytes_that_its_numbers_say() -> None:
    message = Message(topic=Resource(name="T"), body=b"x", user_properties={"a": "b"})
    assert message.SerializeToString() == bytes.fromhex(
        "0a03 1201 54 1206 0a01 61 1201 62 2201 78".replace(" ", "")
    )


def test_an_optional_field_tells_that_it_is_there() -> None:
    properties = SystemProperties(queue_offset=0)
    assert properties.HasField("queue_offset")
    assert not properties.HasField("tag")
    assert SystemProperties.FromString(properties.SerializeToString()).HasField("queue_offset")


def test_one_of_several_commands_is_there() -> None:
    command = TelemetryCommand(settings=Settings())
    assert command.WhichOneof("command") == "settings"
    assert TelemetryCommand().WhichOneof("command") is None


def test_numbers_of_fields_and_enums_are_used_once() -> None:
    for message in proto().message_type:
        numbers = [field.number for field in message.field]
        assert len(set(numbers)) == len(numbers), message.name
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), message.name


def test_the_codes_are_those_of_the_proto() -> None:
    values = {enum.name: {one.name: one.number for one in enum.value} for enum in proto().enum_type}
    assert {code.name: int(code) for code in GrpcCode}.items() <= values["Code"].items()


def test_remoting_codes_that_say_nothing_are_errors_of_the_server() -> None:
    assert code_of_remoting(0) == GrpcCode.OK
    assert code_of_remoting(17) == GrpcCode.TOPIC_NOT_FOUND
    assert code_of_remoting(10) == GrpcCode.MASTER_PERSISTENCE_TIMEOUT
    assert code_of_remoting(4711) == GrpcCode.INTERNAL_SERVER_ERROR


def test_the_sdk_of_rocketmq_may_be_in_the_same_process() -> None:
    file = proto()
    file.name = "apache/rocketmq/v2/definition.proto"
    pool = descriptor_pool.Default()
    pool.Add(file)
    assert pool.FindMessageTypeByName("apache.rocketmq.v2.Message").file.name == file.name
    assert Message.DESCRIPTOR.file.pool is grpc_messages.pool  # type: ignore[attr-defined]


def test_the_types_are_those_of_the_proto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import gen_grpc_types

    try:
        assert gen_grpc_types.TARGET.read_text("utf-8") == gen_grpc_types.text(proto()), (
            "run python tools/gen_grpc_types.py"
        )
    finally:
        sys.modules.pop("gen_grpc_types")


@pytest.mark.parametrize("text", ["message A {", "service S {}", "enum E { A 1; }"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="service"):
        proto_reader.read_proto(text, "service.proto")


@pytest.mark.parametrize("ms", [0, 1, 999, 1000, 1_700_000_000_123, -1, -1500])
def test_times_go_there_and_back(ms: int) -> None:
    assert ms_of(duration_of(ms)) == ms
    assert ms_of(timestamp_of(ms)) == ms
