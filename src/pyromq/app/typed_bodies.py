"""Bodies of messages as Python values, and back: JSON, unless the type says otherwise.

| annotation                          | the body is             |
| ----------------------------------- | ----------------------- |
| bytes                               | taken as it is          |
| str                                 | UTF-8 text              |
| a pydantic model                    | JSON, read by pydantic  |
| a Struct, dataclass, dict, int, …   | JSON, read by msgspec   |
| none                                | JSON, of whatever shape |

Pydantic is not imported here: a model is known by its methods.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from pyromq.errors import ConfigError, PyroError

Decode: TypeAlias = Callable[[bytes], Any]


class BadBody(PyroError):
    """A message's body is not of the type that its handler takes. Another try would not mend it."""


def encode_body(value: object) -> bytes:
    """Return a value as the body of a message; raise ConfigError for one that has no JSON."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    dump = getattr(value, "model_dump_json", None)
    if dump is not None:
        text: str = dump()
        return text.encode()
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"a {type(value).__name__} cannot be a body: {error}; publish bytes, a str, a dict, a dataclass, "
            "a msgspec.Struct or a pydantic model"
        ) from error


def decoder_of(annotation: Any) -> Decode:
    """Return what reads a body as a type; raise ConfigError for a type that cannot be read from JSON."""
    if annotation is bytes:
        return bytes
    if annotation is str:
        return _text
    validate = getattr(annotation, "model_validate_json", None)
    if validate is not None:
        return _by_pydantic(annotation.__name__, validate)
    try:
        decoder = msgspec.json.Decoder(annotation)
    except TypeError as error:
        raise ConfigError(
            f"a body cannot be read as {annotation!r}: {error}; annotate the parameter with bytes, str, a "
            "dataclass, a msgspec.Struct or a pydantic model"
        ) from error
    return _by_msgspec(getattr(annotation, "__name__", str(annotation)), decoder)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: {error}") from error


def _by_msgspec(name: str, decoder: "msgspec.json.Decoder[Any]") -> Decode:
    def decode(body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadBody(f"the body is no {name}: {error}") from error

    return decode


def _by_pydantic(name: str, validate: Callable[[bytes], Any]) -> Decode:
    def decode(body: bytes) -> Any:
        try:
            return validate(body)
        except ValueError as error:
            # Pydantic's ValidationError is one.
            raise BadBody(f"the body is no {name}: {error}") from error

    return decode
