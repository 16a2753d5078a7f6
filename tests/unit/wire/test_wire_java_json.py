"""fastjson's JSON, in and out. What the real fastjson writes is in tests/conformance."""

import math
from typing import Any

import pytest

from pyromq.errors import BodyError
from pyromq.model import MessageQueue
from pyromq.wire.java_json import DEPTH_MAX, ObjectKey, dumps, java_double, loads


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a:1}", {"a": 1}),
        ("{'a':'b'}", {"a": "b"}),
        ('{"a":1,}', {"a": 1}),
        ('{"a":1,,"b":2}', {"a": 1, "b": 2}),
        ("[1,2,]", [1, 2]),
        ('{0:"x",-1:"y"}', {0: "x", -1: "y"}),
        ("{1.5:2}", {"1.5": 2}),
        ('{"a":NaN}', {"a": None}),
        ('{"a":1.,b:2}', {"a": 1.0, "b": 2}),
        ('{"a":"x\ny"}', {"a": "x\ny"}),
        ("{'a':'\\x41\\u4e2d\\n\\q'}", {"a": "A中\nq"}),
        ("['\\ud83d\\ude00']", ["\U0001f600"]),
        ("['\\ud83d']", ["�"]),
        ("[true,false,null,1e2,-3]", [True, False, None, 100.0, -3]),
        ("﻿{}", {}),
        (" \n{ 0 : 1 , 1 : 2 } ", {0: 1, 1: 2}),
        ('"plain"', "plain"),
    ],
)
def test_what_fastjson_forgives_reads(text: str, value: Any) -> None:
    assert loads(text) == value
    assert loads(text.encode()) == value


def test_an_object_may_be_a_key() -> None:
    table = loads('{{"topic":"T","queueId":3}:5}')

    assert table == {ObjectKey((("queueId", 3), ("topic", "T"))): 5}
    assert next(iter(table)).as_dict() == {"queueId": 3, "topic": "T"}


def test_bytes_that_are_not_utf8_read_with_replacement() -> None:
    assert loads(b'{"a":"\xff"}') == {"a": "�"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[",
        "{0",
        "{0:",
        "{0:1",
        "{0:1 2}",
        "[1 2]",
        "{0 1}",
        "{:1}",
        "nonsense",
        "{0:x}",
        "{'a",
        "{0:1}x",
        "-",
        "{{'a':[1]}:1}",
        "{0:" + "1" * 50 + "}",
        "1" * 5000,
        "{0:1e}",
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BodyError):
        loads(text)


@pytest.mark.parametrize("opening", ["[", '{"a":', "{0:", "{{'a':", "{{"])
def test_nesting_has_a_limit(opening: str) -> None:
    with pytest.raises(BodyError):
        loads(opening * 100_000)


def test_nesting_to_the_limit_reads() -> None:
    # The number at the bottom is the last level, and the object that holds it the one before.
    text = "[" * (DEPTH_MAX - 1) + "{0:1}" + "]" * (DEPTH_MAX - 1)

    assert dumps(loads(text)).decode() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: "a", 1: None}, '{0:"a"}'),
        ({MessageQueue("T", "b", 3): 1}, '{{"brokerName":"b","queueId":3,"topic":"T"}:1}'),
        ([None, True, 1, 1.5, "x"], '[null,true,1,1.5,"x"]'),
        ({ObjectKey((("queueId", 3),)): 1}, '{{"queueId":3}:1}'),
        ((1, 2), "[1,2]"),
        ({"a": {}, "b": []}, '{"a":{},"b":[]}'),
        ("\ud800\x7f\u2028/", '"?\\u007F\\u2028/"'),
    ],
)
def test_values_are_written_compactly(value: Any, text: str) -> None:
    assert dumps(value).decode() == text


def test_ascii_only_quotes_every_key() -> None:
    assert dumps({0: "中/😀"}, ascii_only=True) == b'{"0":"\\u4E2D\\/\\uD83D\\uDE00"}'


def test_pretty_keeps_integer_keys_on_their_line() -> None:
    assert dumps({"t@g": {0: 1, 1: 2}}, pretty=True) == b'{\n\t"t@g":{0:1,1:2\n\t}\n}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
        (0.00012, "1.2E-4"),
        (1e-5, "1.0E-5"),
        (1.5e300, "1.5E300"),
        (math.inf, "null"),
        (math.nan, "null"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_what_has_no_json_is_our_own_mistake() -> None:
    with pytest.raises(TypeError, match="complex"):
        dumps({"a": 1j})
