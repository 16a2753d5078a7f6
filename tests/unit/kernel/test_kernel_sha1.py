"""The kernel's SHA-1 is that of FIPS 180-4, its signatures are those of RFC 2104, by both of its ways."""

import hmac
from base64 import b64decode
from hashlib import sha1
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.wire.signing_key import SigningKey

kernel = pytest.importorskip("pyromq._kernel.codec.sha1")

#: From NIST's examples for FIPS 180-4 and its byte-oriented test vectors (SHA1ShortMsg, SHA1LongMsg).
NIST = {
    b"": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    b"abc": "a9993e364706816aba3e25717850c26c9cd0d89d",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
    b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu": "a49b2446a02c645bf419f995b67091253a04a259",  # noqa: E501  NIST's own line
    b"a" * 1_000_000: "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
    bytes.fromhex("36"): "c1dfd96eea8cc2b62785275bca38ac261256e278",
    bytes.fromhex("549e959e"): "b78bae6d14338ffccfd5d5b5674a275f6ef9c717",
}
#: RFC 2202: key, text, code.
RFC_2202 = [
    (b"\x0b" * 20, b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
    (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
    (b"\xaa" * 20, b"\xdd" * 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
    (bytes(range(1, 26)), b"\xcd" * 50, "4c9007f4026250c6bc8414f9bf50c86c2d7235da"),
    (b"\x0c" * 20, b"Test With Truncation", "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04"),
    (
        b"\xaa" * 80,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "aa4ae5e15272d00e95705637ce8a3b55ed402112",
    ),
    (
        b"\xaa" * 80,
        b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
        "e8e99d0f45237d786d6bbaa7965c7808bbff1a91",
    ),
]

WAYS = pytest.mark.parametrize("by_words", [False, True], ids=["processor", "words"])


def test_the_processors_instructions_are_used_where_it_has_them() -> None:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        pytest.skip("nothing else says what the processor has")

    assert kernel.is_in_processor() == ("sha_ni" in cpuinfo.read_text().split())


@WAYS
@pytest.mark.parametrize(("data", "digest"), NIST.items(), ids=range(len(NIST)))
def test_the_digest_is_nists(data: bytes, digest: str, by_words: bool) -> None:
    assert kernel.sha1(data, by_words=by_words).hex() == digest


@WAYS
def test_the_digest_is_that_of_hashlib_at_each_length_and_alignment(by_words: bool) -> None:
    data = memoryview(bytes(number * number >> 3 & 255 for number in range(400)))

    wrong = [
        (begin, length)
        for begin in range(17)
        for length in range(300)
        if kernel.sha1(data[begin : begin + length], by_words=by_words)
        != sha1(data[begin : begin + length]).digest()
    ]

    assert not wrong


@WAYS
@pytest.mark.parametrize(("key", "text", "code"), RFC_2202, ids=range(len(RFC_2202)))
def test_the_code_is_that_of_rfc_2202(key: bytes, text: bytes, code: str, by_words: bool) -> None:
    signing = kernel.SigningKey(key, by_words)

    for cut in range(len(text) + 1):
        assert b64decode(signing.signature(text[:cut], text[cut:])).hex() == code
        assert b64decode(SigningKey(key).signature(text[:cut], text[cut:])).hex() == code


@given(st.binary(max_size=150), st.binary(max_size=400), st.binary(max_size=400), st.booleans())
def test_a_kept_key_signs_again_and_again_as_hmac_does(
    key: bytes, text: bytes, body: bytes, by_words: bool
) -> None:
    wanted = hmac.digest(key, text + body, "sha1")
    for kept in (kernel.SigningKey(key, by_words), SigningKey(key)):
        for _ in range(2):
            signature = kept.signature(text, body)
            assert b64decode(signature, validate=True) == wanted
            assert len(signature) == 28


def test_what_has_no_bytes_has_no_digest() -> None:
    with pytest.raises(TypeError):
        kernel.sha1("text")
    with pytest.raises(TypeError):
        kernel.SigningKey("text")
