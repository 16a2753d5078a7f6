"""The kernel lets a signed call of gRPC in only when Python would, and as a rule when Python would."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from effort import times
from grpc_sdk import signed
from kernel_grpc_signature_targets import HOST, KEY, NEED, SECRET, SIGNED, is_right, random_headers

from pyromq.broker.access.accounts import Need
from pyromq.broker.access.needs import to_publish
from pyromq.broker.grpc.grpc_access import words_of
from pyromq.broker.grpc.grpc_needs import need_of_names
from pyromq.config.account_rules import Permission
from pyromq.net.routes import Caller
from pyromq.wire.signature import signing_key

kernel = pytest.importorskip("pyromq._kernel.requests.grpc_signatures")

CALLER = Caller(KEY, is_trusted=False)
RIGHT = signed(KEY, SECRET.decode(), SIGNED)


class Known:
    """What the kernel was taught of one account."""

    def __init__(self) -> None:
        self.rules = object()
        self.kernel = kernel.GrpcSignatures(lambda: self.rules)
        self.kernel.learn(self.rules, KEY.encode(), signing_key(SECRET), NEED, CALLER)

    def admits(self, headers: dict[str, str], need: bytes = NEED, host: bytes = HOST) -> Any:
        return self.kernel.caller_of(SimpleNamespace(metadata=headers, peer_host_bytes=host), need)


def test_what_python_refuses_is_never_let_in() -> None:
    random, known, let_in, right = Random(11), Known(), 0, 0
    for _ in range(times(4_000)):
        headers = random_headers(random)
        is_let_in = known.admits(headers) is not None
        assert is_right(headers) or not is_let_in, headers
        let_in, right = let_in + is_let_in, right + is_right(headers)
    assert let_in > times(700)
    assert let_in > right * 0.7


@pytest.mark.parametrize("key", [KEY, f"{KEY}/cn-hangzhou/RocketMQ", f"{KEY}//Rocketmq"])
@pytest.mark.parametrize("is_upper", [False, True])
def test_the_signatures_of_sdks_are_let_in(key: str, *, is_upper: bool) -> None:
    assert Known().admits(signed(key, SECRET.decode(), SIGNED, is_upper=is_upper)) is CALLER


@pytest.mark.parametrize("at", range(40))
def test_each_digit_of_a_signature_counts(at: int) -> None:
    text = RIGHT["authorization"]
    place = len(text) - 40 + at
    other = "0" if text[place] != "0" else "1"
    assert Known().admits(RIGHT | {"authorization": text[:place] + other + text[place + 1 :]}) is None


def test_another_need_and_another_account_are_pythons() -> None:
    known = Known()

    assert known.admits(RIGHT, b"\x08\x00\x06Orders") is None
    assert known.admits(RIGHT, NEED + NEED) is None
    assert known.admits(signed("other", SECRET.decode(), SIGNED)) is None
    assert known.admits(signed(KEY[:-1], SECRET.decode(), SIGNED)) is None
    assert known.admits({}) is None


def test_a_connection_that_may_everything_needs_no_signature() -> None:
    known, trusted = Known(), Caller("", is_trusted=True)
    known.kernel.learn_host(known.rules, HOST, trusted)

    assert known.admits({}) is trusted
    assert known.admits({}, host=bytes(8)) is None


def test_other_rules_are_learnt_anew() -> None:
    known = Known()
    before, known.rules = known.rules, object()
    assert known.admits(RIGHT) is None
    known.kernel.learn_host(known.rules, bytes(8), CALLER)
    assert known.kernel.known_count == 1
    assert known.admits(RIGHT) is None
    known.rules = before
    assert known.admits(RIGHT) is None


def test_needs_are_written_as_the_kernel_writes_them() -> None:
    assert words_of(to_publish("Orders")) == NEED
    assert words_of(need_of_names("readers", "Orders")) == b"\x08\x00\x06Orders\x08\x00\x0e%RETRY%readers"
    assert words_of(need_of_names("readers")) == b"\x08\x00\x0e%RETRY%readers"


@pytest.mark.parametrize(
    "need",
    [
        Need(),
        Need(is_admin=True, resources={"Orders": Permission.PUB}),
        Need(resources={"büro": Permission.PUB}),
        Need(resources=dict.fromkeys(("a", "b", "c"), Permission.PUB)),
        Need(resources={"t" * 600: Permission.PUB}),
    ],
)
def test_an_unusual_need_is_looked_at_each_time(need: Need) -> None:
    assert words_of(need) is None
