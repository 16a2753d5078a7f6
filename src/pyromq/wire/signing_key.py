"""A key that is kept to sign many requests: HMAC-SHA1 in base64.

What the kernel's `sha1.SigningKey` does, in Python.
"""

from base64 import b64encode
from hashlib import sha1
from typing import Final

_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(0x36 ^ byte for byte in range(256))
_OUTER: Final = bytes(0x5C ^ byte for byte in range(256))


class SigningKey:
    """A secret key, of which only the states behind its pads are kept."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes) -> None:
        block = (secret if len(secret) <= _BLOCK_BYTES else sha1(secret).digest()).ljust(_BLOCK_BYTES, b"\0")
        self._inner = sha1(block.translate(_INNER))
        self._outer = sha1(block.translate(_OUTER))

    def signature(self, text: bytes, body: bytes) -> str:
        """Return the signature of a text with a body behind it."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        inner.update(body)
        outer.update(inner.digest())
        return b64encode(outer.digest()).decode()
