"""Decompression by zlib with a limit: a small body can grow a thousandfold."""

import zlib


class InflateError(ValueError):
    """The bytes are not a whole zlib stream."""


class InflatedTooLarge(InflateError):
    """The stream grows beyond the limit; no more of it than that was kept in memory."""


def inflate(data: bytes, bytes_max: int) -> bytes:
    """Return what a zlib stream holds, at most `bytes_max` bytes; what follows the stream is ignored."""
    inflater = zlib.decompressobj()
    try:
        # One byte more than allowed tells a stream that ends at the limit from one that goes on.
        plain = inflater.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise InflateError(str(error)) from error
    if len(plain) > bytes_max:
        raise InflatedTooLarge(f"it grows beyond {bytes_max} bytes")
    if not inflater.eof:
        raise InflateError("the compressed stream is incomplete")
    return plain
