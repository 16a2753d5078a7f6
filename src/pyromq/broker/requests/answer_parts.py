"""An answer, cut at what varies: how the kernel is told what to write.

An answer's header is encoded once by `pyromq.wire.command`, with marks in the places of what varies from
answer to answer. The pieces between the marks are what the kernel copies.
"""

from collections.abc import Mapping
from typing import Final

from pyromq.codes import CommandFlag, ResponseCode, Serializer
from pyromq.config.settings import BrokerSettings
from pyromq.wire import properties as names
from pyromq.wire.command import Command, encode
from pyromq.wire.marks import Parts, cut_at_marks

#: An opaque that stands for itself in no other field.
_OPAQUE: Final = 2_147_480_001
#: What follows a piece: nothing, the request's opaque, or the first, second, … varying field.
OPAQUE: Final = 1
FIRST_FIELD: Final = 2
#: Lengths of frame and header, code, language, version, opaque, flag, and the lengths of remark and fields.
_BINARY_FIELDS_AT: Final = 8 + 17 + 4


def sent_ext(settings: BrokerSettings) -> dict[str, str]:
    """Return the fields that every answer to a send has, a refusal too."""
    return {
        names.TRACE_ON: "true" if settings.trace_on else "false",
        names.MSG_REGION: settings.region_id,
    }


def json_parts(
    fields: Mapping[str, str | None] | None, remark: str | None = None, code: int = ResponseCode.SUCCESS
) -> Parts:
    """Return the pieces of a JSON header, each with what follows it; the fields that are None vary.

    Without `fields` it has none, not even an empty map.
    Raises ValueError when another field looks like a mark.
    """
    marks = {mark.encode(): kind for mark, kind in _kinds(fields or {}).items()}
    marks[str(_OPAQUE).encode()] = OPAQUE
    ext = None if fields is None else _marked(fields)
    answer = Command(code, opaque=_OPAQUE, flag=CommandFlag.RESPONSE, remark=remark, ext=ext)
    text = encode(answer)[8:]
    return cut_at_marks(text, marks)


def binary_parts(fields: Mapping[str, str | None]) -> Parts:
    """Return the pieces of a binary header's fields; a value that varies is left out with its length."""
    marks = {_lengthy(mark): kind for mark, kind in _kinds(fields).items()}
    text = encode(Command(0, ext=_marked(fields), serializer=Serializer.ROCKETMQ))[_BINARY_FIELDS_AT:]
    return cut_at_marks(text, marks)


def _kinds(fields: Mapping[str, str | None]) -> dict[str, int]:
    varying = [name for name, value in fields.items() if value is None]
    return {_mark(name): FIRST_FIELD + number for number, name in enumerate(varying)}


def _marked(fields: Mapping[str, str | None]) -> dict[str, str]:
    return {name: _mark(name) if value is None else value for name, value in fields.items()}


def _mark(name: str) -> str:
    return f"@{name}@"


def _lengthy(text: str) -> bytes:
    return len(text).to_bytes(4, "big") + text.encode()
