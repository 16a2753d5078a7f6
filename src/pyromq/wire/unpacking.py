"""The kinds of compressed bodies, and how they are read: zlib always, LZ4 and Zstandard with their packages.

Three bits of a message's sysFlag name the kind; clients before 4.9.4 name none, and theirs is zlib.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pyromq.codes import COMPRESSION_MASK, SysFlag
from pyromq.config.choices import Compression
from pyromq.wire.inflate import InflatedTooLarge, InflateError, inflate

COMPRESSION_FLAGS: Final = {
    Compression.ZLIB: SysFlag.COMPRESSION_ZLIB,
    Compression.LZ4: SysFlag.COMPRESSION_LZ4,
    Compression.ZSTD: SysFlag.COMPRESSION_ZSTD,
}
_KINDS: Final = {0: Compression.ZLIB} | {int(flag): kind for kind, flag in COMPRESSION_FLAGS.items()}
_PACKAGES: Final = {Compression.LZ4: "lz4.frame", Compression.ZSTD: "zstandard"}


class NoUnpacker(ValueError):
    """A body is compressed by a kind that is not known here (`kind` is None), or whose package is missing."""

    def __init__(self, kind: Compression | None, sys_flag: int) -> None:
        cause = (
            f"no kind of compression is known for sysFlag {sys_flag:#x}"
            if kind is None
            else f"it is compressed by {kind}, which needs a package: pip install 'pyromq[{kind.lower()}]'"
        )
        super().__init__(cause)
        self.kind = kind


def compression_package(kind: Compression) -> Any:
    """Return the package of a kind, or None when it is not installed; asked for when it is needed first."""
    try:
        return importlib.import_module(_PACKAGES[kind])
    except ImportError:
        return None


def compression_of(sys_flag: int) -> Compression | None:
    """Return the kind of a compressed body; None for one that is not known here."""
    return _KINDS.get(sys_flag & COMPRESSION_MASK)


def unpack_body(body: bytes, sys_flag: int, bytes_max: int) -> bytes:
    """Return a body as it was before it was compressed, if it was.

    Raises NoUnpacker for a kind that is not read here, InflatedTooLarge for a body that grows beyond
    `bytes_max` (with no more than that in memory), and InflateError for one that does not decompress.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = compression_of(sys_flag)
    if kind is Compression.ZLIB:
        return inflate(body, bytes_max)
    package = None if kind is None else compression_package(kind)
    if kind is None or package is None:
        raise NoUnpacker(kind, sys_flag)
    read, failure = _reader(kind, package)
    try:
        plain = read(body, bytes_max + 1)
    except failure as error:
        raise InflateError(str(error)) from error
    if len(plain) > bytes_max:
        raise InflatedTooLarge(f"it grows beyond {bytes_max} bytes")
    return plain


def _reader(kind: Compression, package: Any) -> tuple[Callable[[bytes, int], bytes], type[Exception]]:
    """Return what reads a kind up to a limit, and the error that it raises."""
    if kind is Compression.LZ4:
        return partial(_read_lz4, package), RuntimeError
    return partial(_read_zstd, package), package.ZstdError


def _read_lz4(package: Any, body: bytes, bytes_max: int) -> bytes:
    reader = package.LZ4FrameDecompressor()
    plain: bytes = reader.decompress(body, bytes_max)
    if len(plain) < bytes_max and not reader.eof:
        raise RuntimeError("the frame is incomplete")
    return plain


def _read_zstd(package: Any, body: bytes, bytes_max: int) -> bytes:
    # Frames that were written as a stream do not say how long they become; a reader takes them all.
    reader = package.ZstdDecompressor().stream_reader(body)
    plain: bytes = reader.read(bytes_max)
    return plain
