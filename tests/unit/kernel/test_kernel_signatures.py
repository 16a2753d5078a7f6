"""The kernel lets a signed request pass exactly when Python would, of those that it was taught."""

import json
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.codes import Serializer
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.record import Record, encode_record
from pyromq.wire.signature import is_signed, signature, signing_key

kernel = pytest.importorskip("pyromq._kernel.requests.signatures")

SHOP, SECRET, OTHER = b"web-shop", b"web-shops-secret", b"anothers-secret"
CODE = 310
HERE = bytes([127, 0, 0, 1, 0, 0, 42, 159])
Fields = dict[str, str]
FIELDS = {
    "a": "group",
    "b": "orders",
    "i": "TAGS\x01paid\x02KEYS\x01a b",
    "e": "0",
    "AccessKey": SHOP.decode(),
}


def taught(**changes: Any) -> Any:
    """Return what lets sends of the shop to `orders` pass."""
    made = kernel.Signatures({CODE: ((b"b",), None)})
    known = {"key": signing_key(SECRET), "code": CODE, "values": (b"orders",)} | changes
    assert made.learn(SHOP, known["key"], known["code"], known["values"])
    return made


def framed(header: bytes, body: bytes = b"", serializer: int = Serializer.JSON) -> bytes:
    return struct.pack(">ii", len(header) + 4 + len(body), serializer << 24 | len(header)) + header + body


def as_json(fields: dict[str, Any], body: bytes = b"", code: int = CODE, *, text: str | None = None) -> bytes:
    """Return a frame whose fields stand in the order in which they are given."""
    ext = json.dumps(fields, separators=(",", ":")) if text is None else text
    return framed(f'{{"code":{code},"extFields":{ext},"flag":0,"opaque":7}}'.encode(), body)


def signed(fields: Fields, body: bytes = b"", secret: bytes = SECRET) -> Fields:
    return fields | {"Signature": signature(fields, body, secret)}


def command_of(frame: bytes) -> Command:
    reader = CommandReader()
    reader.feed(frame)
    command = reader.next_command()
    assert command is not None
    return command


@pytest.mark.parametrize("serializer", Serializer)
@pytest.mark.parametrize("body", [b"", b"x", b"x" * 63, bytes(range(256)) * 9], ids=len)
def test_a_signed_request_like_one_that_was_let_through_passes(serializer: int, body: bytes) -> None:
    frame = encode(Command(CODE, ext=signed(FIELDS, body), body=body, serializer=serializer))

    assert taught().lets_pass(frame, HERE)
    assert taught().lets_pass(bytearray(frame), HERE)


@given(st.permutations(list(signed(FIELDS, b"x").items())))
def test_the_order_in_which_the_fields_stand_does_not_matter(pairs: list[tuple[str, str]]) -> None:
    assert taught().lets_pass(as_json(dict(pairs), b"x"), HERE)


@pytest.mark.parametrize(
    "changed",
    [
        {"a": "groupX"},
        {"i": ""},
        {"e": "1"},
        {"z": "more"},
        {"z": "TAGS\x01late"},
        {"AccessKey": "web-shoP"},
        {"Signature": ""},
        {"Signature": "A" * 28},
        {"Signature": "A" * 27},
    ],
)
def test_what_was_changed_on_its_way_does_not_pass(changed: Fields) -> None:
    assert not taught().lets_pass(as_json(signed(FIELDS, b"x") | changed, b"x"), HERE)


def test_each_character_of_a_signature_is_compared() -> None:
    fields = signed(FIELDS, b"x")
    given_text = fields["Signature"]

    wrong = [
        given_text[:at] + ("A" if given_text[at] != "A" else "B") + given_text[at + 1 :] for at in range(28)
    ]

    for text in [*wrong, given_text + "A", given_text[:-1], given_text.lower(), given_text + " "]:
        assert not taught().lets_pass(as_json(fields | {"Signature": text}, b"x"), HERE)
    assert taught().lets_pass(as_json(fields, b"x"), HERE)


@pytest.mark.parametrize("body", [b"", b"y", b"xx"])
def test_another_body_does_not_pass(body: bytes) -> None:
    assert not taught().lets_pass(as_json(signed(FIELDS, b"x"), body), HERE)


@pytest.mark.parametrize("missing", ["AccessKey", "Signature", "b", "a"])
def test_a_request_without_one_of_its_fields_does_not_pass(missing: str) -> None:
    fields = {name: text for name, text in signed(FIELDS).items() if name != missing}

    assert not taught().lets_pass(as_json(fields), HERE)


def test_only_what_was_learnt_passes() -> None:
    assert not kernel.Signatures({CODE: ((b"b",), None)}).lets_pass(as_json(signed(FIELDS)), HERE)
    assert not kernel.Signatures({}).lets_pass(as_json(signed(FIELDS)), HERE)
    for fields in (FIELDS | {"b": "secrets"}, FIELDS | {"AccessKey": "rival"}, FIELDS | {"b": ""}):
        assert not taught().lets_pass(as_json(signed(fields)), HERE)
    assert not taught().lets_pass(as_json(signed(FIELDS), code=320), HERE)
    assert not taught().lets_pass(as_json(signed(FIELDS, secret=OTHER)), HERE)


def test_what_is_forgotten_does_not_pass() -> None:
    signatures = taught()
    signatures.learn_host(HERE)
    assert signatures.known_count == 2

    signatures.forget_all()

    assert signatures.known_count == 0
    assert not signatures.lets_pass(as_json(signed(FIELDS)), HERE)


def test_an_account_has_one_key_the_last_that_was_learnt() -> None:
    signatures = taught()
    again = signing_key(OTHER)

    assert signatures.learn(SHOP, again, CODE, (b"orders",))
    assert not signatures.learn(SHOP, again, CODE, (b"orders",))

    assert not signatures.lets_pass(as_json(signed(FIELDS)), HERE)
    assert signatures.lets_pass(as_json(signed(FIELDS, secret=OTHER)), HERE)


def test_from_a_host_that_was_learnt_all_that_the_kernel_handles_passes() -> None:
    signatures = taught()
    signatures.learn_host(HERE)

    for frame in (as_json({}), as_json(FIELDS | {"b": "secrets"})):
        assert signatures.lets_pass(frame, HERE)
        assert not signatures.lets_pass(frame, HERE[:-1] + b"\0")
    assert not signatures.lets_pass(as_json({}, code=320), HERE)


def test_no_two_requests_have_the_same_fact() -> None:
    signatures = kernel.Signatures({11: ((b"topic", b"consumerGroup"), None)})
    signatures.learn(SHOP, signing_key(SECRET), 11, (b"orders", b"billing"))
    access = {"AccessKey": SHOP.decode()}

    for topic, group in (
        ("ordersbilling", ""),
        ("", "ordersbilling"),
        ("order", "sbilling"),
        ("billing", "orders"),
    ):
        fields = access | {"topic": topic, "consumerGroup": group}
        assert not signatures.lets_pass(as_json(signed(fields), code=11), HERE)
    right = access | {"topic": "orders", "consumerGroup": "billing"}
    assert signatures.lets_pass(as_json(signed(right), code=11), HERE)


def test_what_has_no_rule_or_is_too_long_is_not_learnt() -> None:
    signatures, key = kernel.Signatures({CODE: ((b"b",), None), 14: ((), None)}), signing_key(SECRET)

    assert signatures.learn(SHOP, key, 14, ())
    assert not signatures.learn(SHOP, key, 320, (b"orders",))
    assert not signatures.learn(SHOP, key, CODE, ())
    assert not signatures.learn(SHOP, key, CODE, (b"orders", b"orders"))
    assert not signatures.learn(b"k" * 600, key, CODE, (b"orders",))
    assert not signatures.lets_pass(as_json(signed(FIELDS | {"b": "t" * 600})), HERE)
    with pytest.raises(ValueError, match="too many"):
        kernel.Signatures({CODE: ((b"a", b"b", b"c", b"d", b"e"), None)})
    with pytest.raises(ValueError, match="too many"):
        kernel.Signatures(dict.fromkeys(range(33), ((), None)))
    with pytest.raises(ValueError, match="no log"):
        kernel.Signatures({37: ((), b"commitLogOffset")})


# As it may stand in JSON ------------------------------------------------------------------------------------


def test_values_are_signed_as_the_characters_that_they_stand_for() -> None:
    text = '"\\/\n\t\r\b\f\x00\x01\x02\x1f~ ' * 3
    fields = signed(FIELDS | {"i": text})

    escaped = "".join(f"\\u{ord(letter):04x}" for letter in text)
    plain = json.dumps(fields, separators=(",", ":"))

    assert taught().lets_pass(as_json(fields), HERE)
    assert taught().lets_pass(as_json({}, text=plain.replace(json.dumps(text), f'"{escaped}"')), HERE)


def test_a_signature_may_have_its_slashes_escaped() -> None:
    pairs = (signed(FIELDS | {"a": str(number)}) for number in range(1000))
    fields = next(one for one in pairs if one["Signature"].count("/") >= 2)
    text = json.dumps(fields, separators=(",", ":"))
    assert "\\/" not in text

    assert taught().lets_pass(as_json({}, text=text.replace("/", "\\/")), HERE)


def test_numbers_and_booleans_without_quotes_are_signed_as_they_stand() -> None:
    loose: dict[str, Any] = FIELDS | {"e": 0, "d": -12, "k": True, "m": False}
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in loose.items()
    }

    frame = as_json(loose | {"Signature": signature(texts, b"", SECRET)})

    assert command_of(frame).ext == signed(texts)
    assert taught().lets_pass(frame, HERE)


@pytest.mark.parametrize(
    "fields",
    [
        {"z": "ü"},
        {"z": "\x80"},
        {"ü": "z"},
        {"_UNIQUE_KEY_QUERY": "true"},
        {f"field-{number}": "x" for number in range(32)},
    ],
    ids=["no ASCII", "no ASCII, escaped", "no ASCII in a name", "two signatures", "many"],
)
def test_what_is_unusual_is_left_to_python(fields: Fields) -> None:
    frame = as_json(signed(FIELDS | fields))
    ext = command_of(frame).ext or {}

    assert is_signed(ext, b"", SECRET)
    assert not taught().lets_pass(frame, HERE)


def test_a_field_that_stands_twice_is_left_to_python() -> None:
    for name in ("a", "b", "i", "AccessKey", "Signature"):
        fields = signed(FIELDS)
        text = json.dumps(fields, separators=(",", ":"))
        twice = text[:-1] + "," + json.dumps({name: fields[name]}, separators=(",", ":"))[1:]
        frame = as_json({}, text=twice)

        assert is_signed(command_of(frame).ext or {}, b"", SECRET)
        assert not taught().lets_pass(frame, HERE)


# Requests that name a message -------------------------------------------------------------------------------

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
#: Topics, and what the messages say of the topic that they wait for.
MESSAGES = (
    ("orders", ""),
    (HALF, "REAL_TOPIC\x01orders\x02REAL_QID\x010"),
    (HALF, "REAL_TOPIC\x01secrets"),
    (HALF, "PGROUP\x01payers"),
    (HALF, "REAL_TOPIC\x01secrets\x02a\x01b\x02REAL_TOPIC\x01orders\x02REAL_TOPIC\x01\x02"),
    ("secrets", ""),
    ("orders", "REAL_TOPIC\x01orders"),
    ("order", "REAL_TOPIC\x01s"),
)


class Log:
    """A log of one file, which says how often it was looked at."""

    def __init__(self, *, written_from: int = 0) -> None:
        self.positions, data = [], b""
        for topic, properties in MESSAGES:
            self.positions.append(len(data))
            data += encode_record(
                Record(topic=topic, body=b"body", properties=properties, position=len(data))
            )
        self.end, self.written_from, self.map = len(data), written_from, bytearray(data)
        self.base, self.looks = 0, 0

    def segment_at(self, _position: int) -> Any:
        self.looks += 1
        return self


def naming(log: Log, *values: bytes) -> Any:
    """Return what lets the shop send messages of one kind back for a group."""
    made = kernel.Signatures({36: ((b"group",), b"offset")}, log)
    assert made.learn(SHOP, signing_key(SECRET), 36, (b"billing", *values))
    return made


def back(position: object, **more: str) -> bytes:
    fields = {"offset": str(position), "group": "billing", "AccessKey": SHOP.decode()}
    return as_json(signed(fields | more), code=36)


@pytest.mark.parametrize(
    ("values", "passing"),
    [
        ((b"orders", b""), {0}),
        ((HALF.encode(), b"orders"), {1, 4}),
        ((HALF.encode(), b"secrets"), {2}),
        ((HALF.encode(), b""), {3}),
        ((b"secrets", b""), {5}),
        ((b"orders", b"orders"), {6}),
        ((b"", b"orders"), set()),
    ],
    ids=str,
)
def test_only_requests_for_messages_of_the_learnt_topics_pass(
    values: tuple[bytes, ...], passing: set[int]
) -> None:
    log = Log()
    signatures = naming(log, *values)

    assert {
        number for number, at in enumerate(log.positions) if signatures.lets_pass(back(at), HERE)
    } == passing
    assert not signatures.lets_pass(back(log.positions[0], group="auditors"), HERE)


@pytest.mark.parametrize("position", [1, -1, 88, 1 << 40, "", "00", "+0", "x", "0 "], ids=str)
def test_what_is_no_place_of_a_message_is_left_to_python(position: object) -> None:
    signatures = naming(Log(), b"orders", b"")

    assert signatures.lets_pass(back(0), HERE)
    assert not signatures.lets_pass(back(position), HERE)


def test_a_request_that_names_no_message_is_left_to_python() -> None:
    fields = {"group": "billing", "AccessKey": SHOP.decode()}

    assert not naming(Log(), b"orders", b"").lets_pass(as_json(signed(fields), code=36), HERE)


def test_a_message_that_is_damaged_is_left_to_python() -> None:
    log = Log(written_from=1 << 40)
    signatures = naming(log, b"orders", b"")
    assert signatures.lets_pass(back(0), HERE)

    log.map[88] ^= 1

    assert not signatures.lets_pass(back(0), HERE)


def test_a_message_is_looked_for_each_time_and_nothing_of_the_log_is_kept() -> None:
    log = Log()
    signatures = naming(log, b"orders", b"")
    for looks in range(1, 4):
        assert signatures.lets_pass(back(0), HERE)
        assert log.looks == looks

        # A file that somebody looks at cannot grow.
        log.map += b"x"


def test_what_names_a_message_is_learnt_with_both_its_topics() -> None:
    signatures, key = kernel.Signatures({36: ((b"group",), b"offset")}, Log()), signing_key(SECRET)

    assert not signatures.learn(SHOP, key, 36, (b"billing",))
    assert not signatures.learn(SHOP, key, 36, (b"billing", b"orders"))
    assert signatures.learn(SHOP, key, 36, (b"billing", b"orders", b""))
    assert not signatures.learn(SHOP, key, 36, (b"billing", b"t" * 600, b""))


def test_from_a_host_that_was_learnt_no_message_is_looked_for() -> None:
    log = Log()
    signatures = naming(log, b"orders", b"")
    signatures.learn_host(HERE)

    assert signatures.lets_pass(back(log.positions[5]), HERE)
    assert log.looks == 0


# Any request ------------------------------------------------------------------------------------------------

NAMES = st.sampled_from([*"abcdefghijklmn", "topic", "AccessKey", "Signature", "zz", "z", "A", "", "_", "aa"])
VALUES = st.text(st.characters(codec="ascii"), max_size=90)


@given(
    st.dictionaries(NAMES, VALUES, max_size=14),
    st.binary(max_size=200),
    st.sampled_from(list(Serializer)),
    st.sampled_from([SECRET, SECRET, OTHER]),
    st.randoms(use_true_random=False),
)
def test_any_request_passes_when_it_is_signed_and_known(
    fields: Fields, body: bytes, serializer: int, secret: bytes, chance: random.Random
) -> None:
    fields = {**fields, "b": "orders", "AccessKey": SHOP.decode()}
    fields.pop("Signature", None)
    pairs = list(signed(fields, body, secret).items())
    chance.shuffle(pairs)
    frame = encode(Command(CODE, ext=dict(pairs), body=body, serializer=serializer))
    signatures = taught()

    assert signatures.lets_pass(frame, HERE) is (secret == SECRET)

    spoilt = bytearray(frame)
    at = chance.randrange(8, len(frame))
    spoilt[at] ^= 1 << chance.randrange(8)
    if signatures.lets_pass(spoilt, HERE):
        # What is no field, as the opaque, is not signed.
        command = command_of(bytes(spoilt))
        ext = command.ext or {}
        assert (command.code, ext["b"], ext["AccessKey"]) == (CODE, "orders", SHOP.decode())
        assert is_signed(ext, command.body, SECRET)
