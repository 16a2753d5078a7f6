"""A message's body for those who read it: people at a terminal, and programs that read JSON."""

import base64
from collections.abc import Iterator

_HEX_WIDTH = 16


def printable(body: bytes) -> str:
    """Return a body for a terminal: what is not printable text, as escapes."""
    return safe(body.decode("utf-8", "backslashreplace"))


def safe(text: str) -> str:
    """Return somebody's text as a terminal may have it: nothing in it moves the cursor or has colours."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def json_body(body: bytes) -> dict[str, str]:
    """Return a body's field of a JSON object: text if it is UTF-8, else base64."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def hex_lines(body: bytes) -> Iterator[str]:
    """Yield a body as hexadecimal numbers, sixteen a line, with the characters beside them."""
    for at in range(0, len(body), _HEX_WIDTH):
        part = body[at : at + _HEX_WIDTH]
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        yield f"{at:08x}  {part.hex(' '):<{3 * _HEX_WIDTH - 1}}  |{characters}|"
