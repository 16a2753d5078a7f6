"""Reads a `.proto` file, as far as ours needs it: messages, enums, oneof, map, optional, repeated.

So nothing is generated: no compiler of protobuf is needed to build or install, and none of its versions ties
this package to a version of the library.
"""

import re
from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_TOKEN: Final = re.compile(r'//[^\n]*|"[^"]*"|[A-Za-z_][\w.]*|\d+|[{}<>=;,]')
_SCALARS: Final = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "string": FieldDescriptorProto.TYPE_STRING,
}


def read_proto(text: str, name: str) -> FileDescriptorProto:
    """Return what a file says. Raises ValueError for what is not understood."""
    return _Reader(text, name).read()


class _Reader:
    """The tokens of one file, and what was read of them."""

    def __init__(self, text: str, name: str) -> None:
        self._tokens: Iterator[str] = iter([one for one in _TOKEN.findall(text) if not one.startswith("//")])
        self._file = FileDescriptorProto(name=name)
        self._enums: set[str] = set()

    def read(self) -> FileDescriptorProto:
        """Read the whole file."""
        file = self._file
        for token in self._tokens:
            if token == "syntax":
                self._expect("=")
                file.syntax = self._take().strip('"')
                self._expect(";")
            elif token == "package":
                file.package = self._take()
                self._expect(";")
            elif token == "import":
                file.dependency.append(self._take().strip('"'))
                self._expect(";")
            elif token == "enum":
                self._read_enum(file.enum_type.add(), f".{file.package}")
            elif token == "message":
                self._read_message(file.message_type.add(), f".{file.package}")
            else:
                raise ValueError(f"{file.name}: {token!r} is not expected here")
        for message in file.message_type:
            self._resolve(message, f".{file.package}")
        return file

    def _read_enum(self, enum: EnumDescriptorProto, scope: str) -> None:
        enum.name = self._take()
        self._enums.add(f"{scope}.{enum.name}")
        self._expect("{")
        while (value := self._take()) != "}":
            self._expect("=")
            enum.value.add(name=value, number=int(self._take()))
            self._expect(";")

    def _read_message(self, message: DescriptorProto, scope: str) -> None:
        message.name = self._take()
        self._expect("{")
        while (token := self._take()) != "}":
            if token == "enum":
                self._read_enum(message.enum_type.add(), f"{scope}.{message.name}")
            elif token == "oneof":
                self._read_oneof(message)
            elif token == "map":
                self._read_map(message, f"{scope}.{message.name}")
            else:
                self._read_field(message, token)
        self._add_presence(message)

    def _read_oneof(self, message: DescriptorProto) -> None:
        message.oneof_decl.add(name=self._take())
        index = len(message.oneof_decl) - 1
        self._expect("{")
        while (token := self._take()) != "}":
            self._read_field(message, token).oneof_index = index

    def _read_map(self, message: DescriptorProto, scope: str) -> None:
        """Read `map<string, string> name = 1;`: a repeated message of a key and a value."""
        for expected in ("<", "string", ",", "string", ">"):
            self._expect(expected)
        name = self._take()
        entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        for number, part in enumerate(("key", "value"), 1):
            field = entry.field.add(name=part, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            field.type = FieldDescriptorProto.TYPE_STRING
        field = message.field.add(name=name, label=FieldDescriptorProto.LABEL_REPEATED)
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{scope}.{entry.name}"
        self._read_number(field)

    def _read_field(self, message: DescriptorProto, token: str) -> FieldDescriptorProto:
        field = message.field.add(label=FieldDescriptorProto.LABEL_OPTIONAL)
        if token == "repeated":
            field.label = FieldDescriptorProto.LABEL_REPEATED
        elif token == "optional":
            field.proto3_optional = True
        type_name = self._take() if token in ("repeated", "optional") else token
        scalar = _SCALARS.get(type_name)
        if scalar is not None:
            field.type = scalar
        else:
            # What it is, is known when the whole file is read.
            field.type_name = type_name
        field.name = self._take()
        self._read_number(field)
        return field

    def _read_number(self, field: FieldDescriptorProto) -> None:
        self._expect("=")
        field.number = int(self._take())
        self._expect(";")

    def _add_presence(self, message: DescriptorProto) -> None:
        """Give each `optional` field a oneof of its own, which is how proto3 tells that it is there."""
        for field in message.field:
            if field.proto3_optional:
                message.oneof_decl.add(name=f"_{field.name}")
                field.oneof_index = len(message.oneof_decl) - 1

    def _resolve(self, message: DescriptorProto, scope: str) -> None:
        """Say of each field of a message or an enum which one, and which of the two it is."""
        inner = f"{scope}.{message.name}"
        for field in message.field:
            if not field.type_name or field.type_name.startswith("."):
                continue
            names = [f"{inner}.{field.type_name}", f"{scope}.{field.type_name}", f".{field.type_name}"]
            enum = next((name for name in names if name in self._enums), None)
            if enum is not None:
                field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, enum
            else:
                name = names[2] if "." in field.type_name else names[1]
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, name

    def _take(self) -> str:
        token = next(self._tokens, None)
        if token is None:
            raise ValueError(f"{self._file.name}: it ends too early")
        return token

    def _expect(self, expected: str) -> None:
        token = self._take()
        if token != expected:
            raise ValueError(f"{self._file.name}: {expected!r} is expected, not {token!r}")
