"""Signed requests, and the hash under their signatures, driven with random inputs; see `kernel_targets`."""

import hmac
from base64 import b64encode
from functools import cache
from hashlib import sha1
from random import Random
from types import SimpleNamespace
from typing import Any

from kernel_inputs import exact, exact_bytes, expect, module, mostly, mutated, some, target

ACCOUNT, SECRET, HOST = "web-shop", b"web-shops-secret", b"\x7f\0\0\x01\0\0\x2a\x9f"
#: Code ─► the fields that say what is needed, and the one that gives the place of a message.
RULES = {
    310: ((b"b",), None),
    11: ((b"topic", b"consumerGroup"), None),
    14: ((), None),
    36: ((b"group",), b"offset"),
    37: ((), b"commitLogOffset"),
}
#: What is learnt of each.
VALUES = {310: (b"orders",), 11: (b"orders", b"billing"), 14: (), 36: (b"billing",), 37: ()}
#: What the messages say: of 36 and 37 that is learnt behind their values.
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
TOPICS = (("orders", "orders"), (HALF, "orders"), (HALF, "secrets"), (HALF, ""), ("secrets", ""))
LEARNT = TOPICS[1]


@cache
def _log() -> tuple[list[int], bytes]:
    """Return the positions of messages, and a log that has them."""
    from pyromq.wire.record import Record, encode_record

    positions, log = [], b""
    for topic, waits_for in TOPICS:
        properties = f"KEYS\x01k\x02REAL_TOPIC\x01{waits_for}"
        positions.append(len(log))
        log += encode_record(Record(topic=topic, body=b"x", properties=properties, position=len(log)))
    return positions, log


def _a_log(random: Random) -> SimpleNamespace:
    """Return the log in one file, which may be damaged or cut."""
    log = _log()[1]
    held = exact(log if random.random() < 0.8 else mutated(random, log))
    segment = SimpleNamespace(base=0, end=len(log), map=held)
    end = mostly(random, len(log), random.randrange(len(log)))
    written_from = random.choice((0, 1 << 40))
    return SimpleNamespace(end=end, written_from=written_from, segment_at=lambda _: segment, held=held)


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
        *[(36, {"offset": place, "group": "billing"}, b"") for place in _log()[0]],
        *[(37, {"commitLogOffset": place, "commitOrRollback": 8}, b"") for place in _log()[0]],
        (37, {"commitLogOffset": 1 << 40}, b""),
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
    from pyromq.wire.properties import find_text
    from pyromq.wire.record import decode_record
    from pyromq.wire.signature import is_signed

    log = _a_log(random)
    kernel = module("signatures").Signatures(RULES, log)
    key = module("sha1").SigningKey(exact_bytes(SECRET))
    for code, (_, place) in RULES.items():
        values = [*VALUES[code], *([] if place is None else [one.encode() for one in LEARNT])]
        count = mostly(random, len(values), 0, 1, 3)
        learnt = tuple(exact_bytes(one) for one in [*values, b"x" * random.randrange(600)][:count])
        kernel.learn(exact_bytes(ACCOUNT.encode()), key, code, learnt)
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
            names, place = RULES[command.code]
            needed = tuple(ext[name.decode()].encode() for name in names)
            expect(needed == VALUES[command.code], "what it needs was learnt")
            if place is not None:
                record = decode_record(memoryview(log.held), int(ext[place.decode()]), check_crc=False)
                found = record.topic, find_text(record.properties, "REAL_TOPIC") or ""
                expect(found == LEARNT, "its message has the learnt topics")


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
