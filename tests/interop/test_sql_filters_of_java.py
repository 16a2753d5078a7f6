"""SQL filters as Java knows them: its client on our broker, and its own evaluation beside ours."""

import json
import os
import random
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.ports import free_broker_port
from harness.program import Program
from harness.servers import start_pyromq
from harness.toolchains import Unavailable, java_class

from pyromq import Admin, Message, Producer
from pyromq.errors import FilterError
from pyromq.filter.sql_filter import compile_sql
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

SEED = 20261116
EXPRESSIONS = 3000
NAMES = ["a", "b", "c", "TAGS"]
VALUES = [
    *("1", "2", "-1", "+1", "01", "1.5", "2.0", "1e3", "NaN", "-Infinity", "0x1p1", " 1 ", "1f", "-0.0", "0"),
    *("2147483648", "9223372036854775807", "9223372036854775808", "x", "y", "it's", "TRUE", "true", "é中"),
]
LITERALS = [
    *(
        "0",
        "1",
        "2",
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "1L",
        "1.5",
        "2.0",
        ".5",
        "5.",
        "1e3",
    ),
    *("'x'", "'1'", "'it''s'", "''", "TRUE", "false", "NULL", "'é中'", "-1", "+2", "- 1.5"),
]


class Deck:
    """Makes expressions, right ones and wrong ones, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def message(self) -> dict[str, str]:
        """Return properties."""
        choose = self._random
        return {name: choose.choice(VALUES) for name in NAMES if choose.random() < 0.75}

    def expression(self, depth: int = 3) -> str:
        """Return an expression; what it means, and whether anything, is not looked at."""
        choose = self._random
        kind = choose.randrange(8 if depth else 5)
        if kind < 3:
            sign = choose.choice(["=", "<>", "<", "<=", ">", ">="])
            return f"{self._operand(depth)} {sign} {self._operand(depth)}"
        negation = choose.choice(["", "NOT "])
        if kind == 3:
            return f"{self._operand(0)} {negation}BETWEEN {self._operand(0)} AND {self._operand(0)}"
        if kind == 4:
            return choose.choice(
                [
                    f"{self._operand(0)} {negation}IN ('1', 'x', 'é中')",
                    f"{self._operand(depth)} IS {negation}NULL",
                    choose.choice(NAMES),
                ]
            )
        if kind == 5:
            return f"NOT ({self.expression(depth - 1)})"
        word = choose.choice(["AND", "OR"])
        return f"({self.expression(depth - 1)}) {word} {self.expression(depth - 1)}"

    def _operand(self, depth: int) -> str:
        choose = self._random
        if depth and choose.random() < 0.1:
            return f"({self.expression(depth - 1)})"
        return choose.choice(NAMES) if choose.random() < 0.6 else choose.choice(LITERALS)


def ours(expression: str, message: dict[str, str]) -> str:
    try:
        return "true" if compile_sql(expression).matches(message) else "no"
    except FilterError:
        return "invalid"


def theirs(cases: list[tuple[str, dict[str, str]]], folder: Path) -> list[str]:
    """Return what Apache's filter of 4.9 says: failed, false and null are all no match."""
    lines = []
    for expression, message in cases:
        words = [expression, *(word for pair in message.items() for word in pair)]
        # The dash keeps an empty word from vanishing.
        lines.append(" ".join("-" + b64encode(word.encode()).decode() for word in words))
    try:
        command = java_class("Selectors", "4.9.8", jars="server-4.9")
    except Unavailable as error:
        unavailable(error)
    told = subprocess.run(
        command,
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=True,
    )
    answers = [json.loads(line)["answer"] for line in told.stdout.splitlines() if line.startswith("{")]
    return ["no" if answer in ("false", "null", "failed") else answer for answer in answers]


@pytest.mark.row("FI-02")
def test_apache_and_we_agree_on_what_thousands_of_expressions_mean(tmp_path: Path) -> None:
    deck = Deck(SEED)
    cases = [(deck.expression(), deck.message()) for _ in range(EXPRESSIONS)]

    answers = theirs(cases, tmp_path)

    differing = [
        (expression, message, f"Apache: {apache}, we: {we}")
        for (expression, message), apache in zip(cases, answers, strict=True)
        if (we := ours(expression, message)) != apache
    ]
    assert not differing, differing[:10]
    # Else this would prove nothing.
    assert min(answers.count(answer) for answer in ("true", "no", "invalid")) > EXPRESSIONS // 20


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[str]:
    """Our servers, with filters enabled."""
    words = ("up", "--data", str(tmp_path / "data"), "--namesrv-port", "0")
    with ExitStack() as closing:
        ready = start_pyromq(
            tmp_path,
            closing,
            "up",
            *(*words, "--broker-port", str(free_broker_port()), "--set", "enablePropertyFilter=true"),
        )
        yield ready["namesrv"]


@pytest.fixture
def java(name_server: str, tmp_path: Path) -> Iterator[Program]:
    """The 4.9.8 client."""
    try:
        command = java_class("Filtered", "4.9.8", [f"-Duser.home={tmp_path}"])
    except Unavailable as error:
        unavailable(error)
    program = Program([*command, name_server], folder=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    yield program
    program.close()


@pytest.mark.row("FI-02", "FI-03")
def test_a_java_consumer_gets_what_its_expression_matches_before_and_after_it_waits(
    name_server: str, java: Program
) -> None:
    with Admin(name_server) as admin, Producer("sql_producer", name_server) as producer:
        admin.create_topic("sql_orders", 2)

        def send(*amounts: int) -> None:
            for amount in amounts:
                producer.send(Message("sql_orders", b"%d" % amount, properties={"amount": str(amount)}))

        send(5, 15, 25, 7)
        java.do("join", "one", "sql_group", "sql_orders", "amount BETWEEN 10 AND 20 OR amount = 25")
        eventually(lambda: len(java.of("consumed")) >= 2, 60)
        send(6, 16, 8, 18)
        eventually(lambda: len(java.of("consumed")) >= 4, 60)
    assert sorted(event["body"] for event in java.of("consumed")) == ["15", "16", "18", "25"]


@pytest.mark.row("FI-02")
def test_a_java_consumer_with_a_bad_expression_is_told_where_it_is_wrong(
    name_server: str, java: Program
) -> None:
    with Admin(name_server) as admin:
        admin.create_topic("sql_bad", 1)
    java.do("join", "one", "sql_bad_group", "sql_bad", "amount LIKE 'x%'")
    (refused,) = java.of("refused")
    assert "At character 8: 'LIKE' stands where an operator" in refused["says"]
