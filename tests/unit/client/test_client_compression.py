import importlib
import zlib

import pytest

from pyromq.client.producer.compression import compress, decompress
from pyromq.client.producer.outgoing import prepare
from pyromq.codes import SysFlag
from pyromq.config.choices import Compression
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError, CorruptRecord, LocalProtocolError
from pyromq.model import Message

BODY = b"the same again and " * 1_000
BITS = {Compression.LZ4: 0x101, Compression.ZSTD: 0x201, Compression.ZLIB: 0x301}
OTHERS = [Compression.LZ4, Compression.ZSTD]


def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)


@pytest.mark.row("MM-05")
@pytest.mark.parametrize("kind", Compression)
def test_what_is_compressed_reads_back_and_its_bits_say_how(kind: Compression) -> None:
    compressed, flags = compress(BODY, kind, 5)

    assert len(compressed) < len(BODY) / 5
    assert flags == BITS[kind]
    assert decompress(compressed, flags, "ID") == BODY


@pytest.mark.row("MM-05")
def test_a_message_that_names_no_kind_is_zlib() -> None:
    assert decompress(zlib.compress(BODY), SysFlag.COMPRESSED, "ID") == BODY


def test_a_body_that_is_not_compressed_stays_as_it_is() -> None:
    assert decompress(BODY, 0, "ID") is BODY


@pytest.mark.row("MM-05")
@pytest.mark.parametrize("kind", Compression)
def test_a_large_body_is_sent_by_the_kind_and_level_of_the_settings(kind: Compression) -> None:
    settings = ClientSettings(compress_type=kind, compress_level=9)

    outgoing = prepare(Message("t", BODY), "U", settings)

    assert outgoing.sys_flag == BITS[kind]
    assert outgoing.body == compress(BODY, kind, 9)[0]


def test_the_level_makes_a_difference() -> None:
    noise = bytes(number * number % 251 for number in range(50_000))

    assert len(compress(noise, Compression.ZLIB, 9)[0]) < len(compress(noise, Compression.ZLIB, 1)[0])


@pytest.mark.parametrize("kind", Compression)
def test_a_body_that_does_not_decompress_is_corrupt(kind: Compression) -> None:
    with pytest.raises(CorruptRecord, match="message ID"):
        decompress(b"nonsense", BITS[kind], "ID")


def test_a_zstd_body_that_was_written_as_a_stream_reads_too() -> None:
    # As RocketMQ's ZstdOutputStream writes it: the frame does not say how long it becomes.
    zstandard = importlib.import_module("zstandard")
    stream = zstandard.ZstdCompressor().compressobj()
    compressed = stream.compress(BODY) + stream.flush()

    assert decompress(compressed, BITS[Compression.ZSTD], "ID") == BODY


@pytest.mark.parametrize("kind", OTHERS)
def test_a_kind_whose_package_is_missing_says_what_to_install(
    kind: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_packages(monkeypatch)

    with pytest.raises(ConfigError, match=rf"pip install 'pyromq\[{kind.lower()}\]'"):
        compress(BODY, kind, 5)
    with pytest.raises(LocalProtocolError, match=rf"pip install 'pyromq\[{kind.lower()}\]'"):
        decompress(b"x", BITS[kind], "ID")


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match="ZLIB, LZ4, ZSTD"):
        compress(BODY, "BROTLI", 5)  # type: ignore[arg-type]


def test_a_message_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="0x401"):
        decompress(b"x", 0x401, "ID")
