"""Compressed bodies: zlib always, LZ4 and Zstandard where their packages are installed.

Three bits of a message's sysFlag name the kind; clients before 4.9.4 name none, and theirs is zlib.
"""

import zlib
from typing import Final

from pyromq.codes import SysFlag
from pyromq.config.choices import Compression
from pyromq.config.settings import ClientSettings
from pyromq.errors import BodyTooLarge, ConfigError, CorruptRecord, LocalProtocolError
from pyromq.wire.inflate import InflatedTooLarge, InflateError
from pyromq.wire.unpacking import (
    COMPRESSION_FLAGS,
    NoUnpacker,
    compression_of,
    compression_package,
    unpack_body,
)

#: The bytes to which a body may grow, unless the client's settings say otherwise.
BODY_BYTES_MAX: Final = ClientSettings().decompressed_bytes_max


def compress(body: bytes, kind: Compression, level: int) -> tuple[bytes, int]:
    """Return a compressed body and its bits of the sysFlag; raise ConfigError when the kind is not there."""
    known = _known_kind(kind)
    flags = int(SysFlag.COMPRESSED | COMPRESSION_FLAGS[known])
    if known is Compression.ZLIB:
        return zlib.compress(body, level), flags
    package = compression_package(known)
    if package is None:
        raise ConfigError(f"compress_type {known} needs a package: {_advice(known)}, or use ZLIB")
    # RocketMQ's LZ4 has no levels either: LZ4FrameOutputStream.
    compressed: bytes = (
        package.compress(body)
        if known is Compression.LZ4
        else package.ZstdCompressor(level=level).compress(body)
    )
    return compressed, flags


def decompress(body: bytes, sys_flag: int, message_id: str, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return a body as it was; raise CorruptRecord when it does not decompress.

    Raises BodyTooLarge when it grows beyond `bytes_max`, with no more than that in memory, and
    LocalProtocolError for a kind that this client cannot read, with what to install.
    """
    try:
        return unpack_body(body, sys_flag, bytes_max)
    except NoUnpacker as error:
        if error.kind is None:
            raise LocalProtocolError(
                f"message {message_id} is compressed by a kind that is not known here (sysFlag {sys_flag:#x})"
            ) from error
        raise LocalProtocolError(
            f"message {message_id} is compressed by {error.kind}, which this client does not read: "
            f"{_advice(error.kind)}, or let its producer compress by ZLIB "
            "(-Drocketmq.message.compressType=ZLIB)"
        ) from error
    except InflatedTooLarge as error:
        raise BodyTooLarge(
            f"the body of message {message_id}, {len(body)} bytes by {compression_of(sys_flag)}, unpacks to "
            f"more than {bytes_max} bytes; raise decompressed_bytes_max (Spark: decompressedBytesMax) "
            "to read it"
        ) from error
    except InflateError as error:
        raise CorruptRecord(f"the body of message {message_id} does not decompress: {error}") from error


def _known_kind(kind: str) -> Compression:
    """Return a kind that a caller without a type checker gave as text."""
    try:
        return Compression(kind)
    except ValueError:
        kinds = ", ".join(Compression)
        raise ConfigError(f"compress_type {kind!r} is not known; take one of {kinds}") from None


def _advice(kind: Compression) -> str:
    return f"pip install 'pyromq[{kind.lower()}]'"
