"""Signed calls of gRPC, driven with random inputs; see `kernel_targets`."""

import hmac
from random import Random
from types import SimpleNamespace
from typing import Any

from kernel_inputs import exact_bytes, expect, module, mostly, mutated, target

KEY, SECRET, SIGNED = "web-shop", b"web-shops-secret", "20240102T030405Z"
HOST, TRUSTED = b"\x7f\0\0\x01\0\0\x2a\x9f", b"\x7f\0\0\x01\0\0\x2a\xa0"
NEED = b"\x04\x00\x06Orders"


def random_headers(random: Random) -> dict[str, str]:
    """Return the headers of a signed call as SDKs write them; some are odd."""
    date_time = mostly(random, SIGNED, "", "20240102T030406Z", "日")
    signature = hmac.digest(mostly(random, SECRET, b"other"), date_time.encode(), "sha1").hex()
    parts = [
        "Credential="
        + mostly(random, KEY, f"{KEY}/cn/RocketMQ", f"{KEY}//", "", f" {KEY}", "other", "k" * 300),
        mostly(random, "SignedHeaders=x-mq-date-time", "SignedHeaders=", "Other=1", ""),
        "Signature="
        + mostly(random, signature, signature.upper(), f"{signature} ", signature[:-1], "zz" * 20),
    ]
    if random.random() < 0.1:
        random.shuffle(parts)
    if random.random() < 0.1:
        parts.append(random.choice(parts))
    text = mostly(random, "MQv2-HMAC-SHA1 ", "MQv2-HMAC-SHA1", "Basic ") + mostly(
        random, ", ", ",", " ,"
    ).join(parts)
    if random.random() < 0.2:
        text = mutated(random, text.encode()).decode("latin-1")
    headers = {"authorization": text, "x-mq-date-time": date_time}
    if random.random() < 0.1:
        del headers[random.choice(list(headers))]
    return headers


def is_right(headers: dict[str, str]) -> bool:
    """Return whether Python lets these headers in."""
    from pyromq.broker.grpc.grpc_callers import credentials_of

    call: Any = SimpleNamespace(metadata=headers)
    shown = credentials_of(call)
    return shown is not None and shown.access_key == KEY and shown.are_signed_with(SECRET)


@target("grpc_signatures.GrpcSignatures")
def signed_calls(random: Random) -> None:
    rules = object()
    held = [rules]
    kernel = module("grpc_signatures").GrpcSignatures(lambda: held[0])
    caller, trusted = object(), object()
    kernel.learn(rules, KEY.encode(), module("sha1").SigningKey(SECRET), NEED, caller)
    kernel.learn_host(rules, TRUSTED, trusted)
    for _ in range(8):
        headers = random_headers(random)
        call = SimpleNamespace(metadata=headers, peer_host_bytes=mostly(random, HOST, TRUSTED))
        need = exact_bytes(mostly(random, NEED, b"", b"\x08\x00\x06Orders", NEED * 60))
        found = kernel.caller_of(call, need)
        if call.peer_host_bytes == TRUSTED:
            expect(found is trusted, "everything is let in from there")
        elif found is not None:
            expect(found is caller and need == NEED and is_right(headers), "Python lets it in too")
    held[0] = object()
    call = SimpleNamespace(metadata=random_headers(random), peer_host_bytes=TRUSTED)
    expect(kernel.caller_of(call, NEED) is None, "what is known followed from other rules")
