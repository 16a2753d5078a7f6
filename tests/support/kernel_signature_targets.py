"""Signed requests, and the hash under their signatures, driven with random inputs; see `kernel_targets`."""

import hmac
from base64 import b64encode
from functools import cache
from hashlib import sha1
from random import Random
from typing import Any

from kernel_inputs import exact, exact_bytes, expect, module, mostly, some, target

ACCOUNT, SECRET, HOST = "web-shop", b"web-shops-secret", b"\x7f\0\0\x01\0\0\x2a\x9f"
#: Code ─► the fields that say what is needed.
RULES = {310: (b"b",), 11: (b"topic", b"consumerGroup"), 14: ()}
VALUES = (b"orders", b"billing")


@cache
def _signed_frames() -> list[bytes]:
    """Return signed requests as clients write them, most of them known below."""
    from pyromq.codes import Serializer
    from pyromq.testing.requests import pull_fields, send_v2_fields
    from pyromq.wire.command import Command, encode
    from pyromq.wire.signature import signer

    asked: list[tuple[int, dict[str, Any], bytes]] = [
        (310, send_v2_fields("orders", {"TAGS": "paid", "KEYS": 'a "b" \\ c'}), bytes(range(256)) * 5),
        (310, send_v2_fields("orders"), b""),
        (310, send_v2_fields("secrets"), b"x"),
        (11, pull_fields("orders", "billing"), b""),
        (14, {"": "", "aa": "1" * 200, "a": "/"}, b""),
        (14, {f"field-{number}": "x" for number in range(29)}, b""),
    ]
    frames = []
    for code, fields, body in asked:
        for secret in (SECRET, SECRET, b"another-secret"):
            texts = {name: str(value).lower() for name, value in fields.items()}
            command = Command(code, opaque=7, ext=texts, body=body)
            signer(ACCOUNT, secret.decode())(command)
            for serializer in Serializer:
                command.serializer = serializer
                frames.append(encode(command))
                # A slash of the signature may have a backslash before it.
                if serializer == Serializer.JSON:
                    frames.append(_with_slashes(frames[-1]))
    return frames


def _with_slashes(frame: bytes) -> bytes:
    length = int.from_bytes(frame[5:8], "big")
    header, body = frame[8 : 8 + length].replace(b"/", b"\\/"), frame[8 + length :]
    return b"".join(
        (
            (4 + len(header) + len(body)).to_bytes(4, "big"),
            len(header).to_bytes(4, "big"),
            header,
            body,
        )
    )


@target("signatures.Signatures")
def signatures(random: Random) -> None:
    from pyromq.errors import RemoteProtocolError
    from pyromq.wire.command import CommandReader
    from pyromq.wire.signature import is_signed

    kernel, key = module("signatures").Signatures(RULES), module("sha1").SigningKey(exact_bytes(SECRET))
    for code, names in RULES.items():
        count = mostly(random, len(names), 0, 1, 3)
        values = tuple(exact_bytes(one) for one in (*VALUES, b"x" * random.randrange(600))[:count])
        kernel.learn(exact_bytes(ACCOUNT.encode()), key, code, values)
    for _ in range(random.randrange(1, 5)):
        if random.random() < 0.1:
            random.choice((kernel.forget_all, lambda: kernel.learn_host(HOST)))()
        is_white = kernel.known_count and random.random() < 0.1
        received = exact_bytes(some(random, _signed_frames(), count_max=1))
        if not kernel.lets_pass(received, HOST if is_white else bytes(8)):
            continue
        reader = CommandReader()
        reader.feed(received)
        try:
            command = reader.next_command()
        except RemoteProtocolError:
            command = None
        expect(command is not None, "what passes is a command")
        assert command is not None
        ext = command.ext or {}
        expect(command.code in RULES, "what passes has a rule")
        if not is_white:
            expect(ext["AccessKey"] == ACCOUNT, "whose it is was learnt")
            expect(is_signed(ext, command.body, SECRET), "it is signed")
            needed = [ext[name.decode()].encode() for name in RULES[command.code]]
            expect(needed == [*VALUES[: len(needed)]], "what it needs was learnt")


@target("sha1.sha1", "sha1.SigningKey", "sha1.is_in_processor")
def hashes(random: Random) -> None:
    kernel, by_words = module("sha1"), random.random() < 0.5
    expect(kernel.is_in_processor() in (True, False), "it is there or not")
    data = random.randbytes(mostly(random, random.randrange(200), 0, 55, 56, 63, 64, 65, 5000))
    expect(kernel.sha1(exact(data), by_words=by_words) == sha1(data).digest(), "it is SHA-1")
    secret, cut = random.randbytes(mostly(random, 16, 0, 63, 64, 65, 200)), random.randrange(len(data) + 1)
    key = kernel.SigningKey(exact_bytes(secret), by_words)
    for _ in range(random.randrange(1, 3)):
        made = key.signature(exact_bytes(data[:cut]), exact_bytes(data[cut:]))
        expect(made == b64encode(hmac.digest(secret, data, "sha1")).decode(), "it is HMAC")
