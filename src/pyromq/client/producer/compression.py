"""Compressed bodies: zlib always, LZ4 and Zstandard where their packages are installed.

Three bits of a message's sysFlag name the kind; clients before 4.9.4 name none, and theirs is zlib.
"""

import importlib
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pyromq.codes import COMPRESSION_MASK, SysFlag
from pyromq.config.choices import Compression
from pyromq.config.settings import ClientSettings
from pyromq.errors import BodyTooLarge, ConfigError, CorruptRecord, LocalProtocolError
from pyromq.wire.inflate import InflatedTooLarge, InflateError, inflate

_FLAGS: Final = {
    Compression.ZLIB: SysFlag.COMPRESSION_ZLIB,
    Compression.LZ4: SysFlag.COMPRESSION_LZ4,
    Compression.ZSTD: SysFlag.COMPRESSION_ZSTD,
}
_KINDS: Final = {0: Compression.ZLIB} | {int(flag): kind for kind, flag in _FLAGS.items()}
#: The bytes to which a body may grow, unless the client's settings say otherwise.
BODY_BYTES_MAX: Final = ClientSettings().decompressed_bytes_max
_PACKAGES: Final = {Compression.LZ4: "lz4.frame", Compression.ZSTD: "zstandard"}


def compress(body: bytes, kind: Compression, level: int) -> tuple[bytes, int]:
    """Return a compressed body and its bits of the sysFlag; raise ConfigError when the kind is not there."""
    known = _known_kind(kind)
    flags = int(SysFlag.COMPRESSED | _FLAGS[known])
    if known is Compression.ZLIB:
        return zlib.compress(body, level), flags
    package = _package(known)
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
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = _KINDS.get(sys_flag & COMPRESSION_MASK)
    if kind is None:
        raise LocalProtocolError(
            f"message {message_id} is compressed by a kind that is not known here (sysFlag {sys_flag:#x})"
        )
    read, failure = _reader(kind, message_id)
    try:
        plain = read(body, bytes_max)
    except InflatedTooLarge as error:
        raise BodyTooLarge(
            f"the body of message {message_id}, {len(body)} bytes by {kind}, unpacks to more than "
            f"{bytes_max} bytes; raise decompressed_bytes_max (Spark: decompressedBytesMax) to read it"
        ) from error
    except failure as error:
        raise CorruptRecord(f"the body of message {message_id} does not decompress: {error}") from error
    return plain


def _reader(kind: Compression, message_id: str) -> tuple[Callable[[bytes, int], bytes], type[Exception]]:
    """Return what reads a kind up to a limit, and the error that it raises."""
    if kind is Compression.ZLIB:
        return inflate, InflateError
    package = _package(kind)
    if package is None:
        raise LocalProtocolError(
            f"message {message_id} is compressed by {kind}, which this client does not read: "
            f"{_advice(kind)}, or let its producer compress by ZLIB (-Drocketmq.message.compressType=ZLIB)"
        )
    if kind is Compression.LZ4:
        return partial(_read_lz4, package), RuntimeError
    return partial(_read_zstd, package), package.ZstdError


def _read_lz4(package: Any, body: bytes, bytes_max: int) -> bytes:
    reader = package.LZ4FrameDecompressor()
    plain: bytes = reader.decompress(body, bytes_max + 1)
    if len(plain) > bytes_max:
        raise InflatedTooLarge(f"it grows beyond {bytes_max} bytes")
    if not reader.eof:
        raise RuntimeError("the frame is incomplete")
    return plain


def _read_zstd(package: Any, body: bytes, bytes_max: int) -> bytes:
    # Frames that were written as a stream do not say how long they become; a reader takes them all.
    reader = package.ZstdDecompressor().stream_reader(body)
    plain: bytes = reader.read(bytes_max + 1)
    if len(plain) > bytes_max:
        raise InflatedTooLarge(f"it grows beyond {bytes_max} bytes")
    return plain


def _known_kind(kind: str) -> Compression:
    """Return a kind that a caller without a type checker gave as text."""
    try:
        return Compression(kind)
    except ValueError:
        kinds = ", ".join(Compression)
        raise ConfigError(f"compress_type {kind!r} is not known; take one of {kinds}") from None


def _package(kind: Compression) -> Any:
    """Return the package of a kind, or None when it is not installed; asked for when it is needed first."""
    try:
        return importlib.import_module(_PACKAGES[kind])
    except ImportError:
        return None


def _advice(kind: Compression) -> str:
    return f"pip install 'pyromq[{kind.lower()}]'"
