"""Write src/pyromq/wire/grpc/grpc_messages.pyi, the types of the messages that `service.proto` describes.

Run it after a change of that file: `python tools/gen_grpc_types.py`. A test fails when it is stale.
"""

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from pyromq.wire.grpc.proto_reader import read_proto

FOLDER = Path(__file__).parents[1] / "src" / "pyromq" / "wire" / "grpc"
TARGET = FOLDER / "grpc_messages.pyi"
LINE_CHARACTERS = 110
SCALARS = {
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
    FieldDescriptorProto.TYPE_FLOAT: "float",
    FieldDescriptorProto.TYPE_INT32: "int",
    FieldDescriptorProto.TYPE_INT64: "int",
    FieldDescriptorProto.TYPE_STRING: "str",
    FieldDescriptorProto.TYPE_ENUM: "int",
}
HEAD = '''"""The messages of `service.proto`; written by tools/gen_grpc_types.py."""

from abc import ABCMeta
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Self, TypeVar

from google.protobuf.message import DecodeError as DecodeError

_M = TypeVar("_M", bound="ProtoMessage")

class ProtoMessage:
    def SerializeToString(self) -> bytes: ...
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...
    def ParseFromString(self, data: bytes) -> int: ...
    def ByteSize(self) -> int: ...
    def CopyFrom(self, other: Self) -> None: ...
    def MergeFrom(self, other: Self) -> None: ...
    def SetInParent(self) -> None: ...
    def HasField(self, name: str) -> bool: ...
    def ClearField(self, name: str) -> None: ...
    def WhichOneof(self, name: str) -> str | None: ...

class Repeated(MutableSequence[_M], metaclass=ABCMeta):
    def add(self, **fields: object) -> _M: ...

class Timestamp(ProtoMessage):
    seconds: int
    nanos: int
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    def ToMilliseconds(self) -> int: ...
    def FromMilliseconds(self, ms: int) -> None: ...

class Duration(ProtoMessage):
    seconds: int
    nanos: int
    def __init__(self, *, seconds: int = ..., nanos: int = ...) -> None: ...
    def ToMilliseconds(self) -> int: ...
    def FromMilliseconds(self, ms: int) -> None: ...
'''


def lines_of(message: DescriptorProto) -> Iterator[str]:
    """Yield the lines of one class."""
    entries = {entry.name for entry in message.nested_type}
    yield f"class {message.name}(ProtoMessage):"
    taken = []
    for field in message.field:
        read, given = types_of(field, entries)
        yield f"    {field.name}: {read}"
        taken.append(f"{field.name}: {given} = ...")
    one = f"    def __init__(self, *, {', '.join(taken)}) -> None: ..."
    if len(one) <= LINE_CHARACTERS:
        yield one
        return
    yield "    def __init__("
    yield "        self,"
    yield "        *,"
    for parameter in taken:
        yield f"        {parameter},"
    yield "    ) -> None: ..."


def types_of(field: FieldDescriptorProto, entries: set[str]) -> tuple[str, str]:
    """Return the type of a field, and the type that the constructor takes for it."""
    name = field.type_name.rpartition(".")[2]
    is_repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    if name in entries:
        return "MutableMapping[str, str]", "Mapping[str, str] | None"
    if field.type == FieldDescriptorProto.TYPE_MESSAGE:
        return (f"Repeated[{name}]", f"Iterable[{name}]") if is_repeated else (name, f"{name} | None")
    scalar = SCALARS[field.type]
    if is_repeated:
        return f"MutableSequence[{scalar}]", f"Iterable[{scalar}]"
    return scalar, f"{scalar} | None" if field.proto3_optional else scalar


def text(file: FileDescriptorProto) -> str:
    """Return the whole file."""
    classes = ["\n".join(lines_of(message)) for message in file.message_type]
    return "\n\n".join([HEAD.rstrip("\n"), *classes]) + "\n"


def main() -> None:
    """Write it."""
    proto = (FOLDER / "service.proto").read_text("utf-8")
    TARGET.write_text(text(read_proto(proto, "service.proto")), "utf-8")


if __name__ == "__main__":
    main()
