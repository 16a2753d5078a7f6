"""The messages of RocketMQ 5's gRPC protocol, as classes of protobuf; `grpc_messages.pyi` has their fields.

They are made from `service.proto` when this module is imported, in a pool of their own: who has RocketMQ's
Python SDK in the same process has the same names in protobuf's default pool, and neither hinders the other.

Raises ConfigError when protobuf is not installed.
"""

from pathlib import Path
from typing import Any

from pyromq.errors import ConfigError

try:
    from google.protobuf import duration_pb2, timestamp_pb2
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message import Message as ProtoMessage
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise ConfigError(
        f"RocketMQ 5's gRPC protocol needs protobuf ({error}): pip install 'pyromq[grpc]'"
    ) from error

from pyromq.wire.grpc.proto_reader import read_proto

__all__ = ["DecodeError", "ProtoMessage"]

_FILE = "service.proto"

pool = DescriptorPool()
for known in (timestamp_pb2, duration_pb2):
    pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
_proto = read_proto(Path(__file__).with_name(_FILE).read_text("utf-8"), f"pyromq/{_FILE}")
pool.Add(_proto)

Timestamp = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.Timestamp"))
Duration = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.Duration"))


def _classes() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for message in _proto.message_type:
        made[message.name] = GetMessageClass(pool.FindMessageTypeByName(f"{_proto.package}.{message.name}"))
    return made


globals().update(_classes())
