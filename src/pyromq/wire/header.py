"""A typed header and the map of strings that travels.

A header is a `Header` (a msgspec struct): its fields are declared in snake case and travel in camel case,
or under the name given to `msgspec.field(name=…)`. A field without a default is required, as `CFNotNull` is
in RocketMQ; unknown fields are ignored; an absent field has its default.

Values travel as strings. Booleans are `true` and `false`, numbers decimal, None is left out.
"""

from typing import Annotated, ClassVar, TypeVar

import msgspec

from pyromq.errors import HeaderError
from pyromq.name_rules import (
    CLIENT_ID_CHARACTERS_MAX,
    EXPRESSION_CHARACTERS_MAX,
    GROUP_CHARACTERS_MAX,
    INNER_TOPIC_CHARACTERS_MAX,
    SERVER_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    WORD_CHARACTERS_MAX,
)
from pyromq.wire.java_hash import java_map_order

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: Names have their limits in the types of their fields: a longer one is refused when it is read, whichever
#: request brings it. Characters are looked at where a name begins to exist.
TopicName = Annotated[str, msgspec.Meta(max_length=INNER_TOPIC_CHARACTERS_MAX)]
GroupName = Annotated[str, msgspec.Meta(max_length=GROUP_CHARACTERS_MAX)]
ClientId = Annotated[str, msgspec.Meta(max_length=CLIENT_ID_CHARACTERS_MAX)]
#: A broker, a cluster, an address.
ServerName = Annotated[str, msgspec.Meta(max_length=SERVER_CHARACTERS_MAX)]
#: An id, a kind, a version.
Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARACTERS_MAX)]
#: A list of names or permissions, a value.
Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS_MAX)]
#: A subscription's tags or SQL.
Expression = Annotated[str, msgspec.Meta(max_length=EXPRESSION_CHARACTERS_MAX)]


class Header(msgspec.Struct, rename="camel"):
    """The fields of one request or answer. Subclasses say `kw_only=True`: msgspec does not inherit it.

    RocketMQ puts a header into a HashMap and writes that; four headers it writes field by field, in the
    order of the class (FastCodesHeader.java). Those say `is_fast = True`.
    """

    is_fast: ClassVar[bool] = False


H = TypeVar("H", bound=Header)


def read_header(header_type: type[H], ext: dict[str, str] | None) -> H:
    """Return the typed header; raise HeaderError, which names the field that is missing or unreadable."""
    try:
        return msgspec.convert(ext or {}, header_type, strict=False)
    except msgspec.ValidationError as error:
        raise HeaderError(f"{header_type.__name__}: {error}") from error


def write_header(header: Header) -> dict[str, str]:
    """Return the map of strings, in the order in which RocketMQ writes them; None is left out."""
    ext: dict[str, str] = {}
    for name, value in msgspec.to_builtins(header).items():
        if value.__class__ is str:
            ext[name] = value
        elif value is True:
            ext[name] = "true"
        elif value is False:
            ext[name] = "false"
        elif value is not None:
            ext[name] = str(value)
    if header.is_fast or len(ext) < 2:
        return ext
    return {name: ext[name] for name in java_map_order(tuple(ext))}
