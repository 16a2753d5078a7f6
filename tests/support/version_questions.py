"""The same questions, asked as a client of a given version asks them: what 5.x adds to 4.9's answers.

Asked of Apache's servers they make `tests/conformance/golden/answers_*.txt`; asked of ours they are compared
with those. Each message is sent twice: the second of a kind is the compiled kernel's to answer.
"""

import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from pyromq.codes import RequestCode, Serializer
from pyromq.testing.golden import GoldenAnswer
from pyromq.wire.command import Command, encode

TOPIC = "fields"
TIMEOUT_S = 30
#: What stands for whatever differs from run to run.
ADDRESS, MESSAGE_ID = b"127.0.0.1:10911", b"0" * 32

_LENGTHS = struct.Struct(">iI")
_UNIT = struct.Struct(">iiiii")


@dataclass(frozen=True)
class Question:
    """One request; `to_broker` says whom it is for."""

    name: str
    code: int
    ext: dict[str, str]
    body: bytes = b""
    to_broker: bool = False


def questions() -> list[Question]:
    """Return all questions, in the order in which they are asked."""
    half = "UNIQ_KEY\x010A0B\x02TRAN_MSG\x01true\x02PGROUP\x01g"
    sends = [
        _send("plain", "UNIQ_KEY\x010A0A\x02TAGS\x01t"),
        _send("half", half, sys_flag=4),
        _send("batch", "", is_batch=True),
        _send("batch with an id", "UNIQ_KEY\x01AA,BB", is_batch=True),
        _send("refused", "UNIQ_KEY\x010A0C", topic="no topic"),
    ]
    return [
        Question("route", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}),
        Question("cluster", RequestCode.GET_BROKER_CLUSTER_INFO, {}),
        *(
            Question(f"{one.name}{more}", one.code, one.ext, one.body, True)
            for one in sends
            for more in ("", " 2")
        ),
    ]


def ask_all(
    name_server: str, broker: str, *, version: int, serializer: Serializer = Serializer.JSON
) -> dict[str, GoldenAnswer]:
    """Ask servers on which the topic is there and empty; return their answers by the questions' names."""
    answers = {}
    with _connected(name_server) as of_names, _connected(broker) as of_messages:
        for question in questions():
            link = of_messages if question.to_broker else of_names
            command = Command(
                question.code,
                opaque=7,
                ext=question.ext,
                body=question.body,
                version=version,
                serializer=serializer,
            )
            link.sendall(encode(command))
            found, header, body = _receive(link)
            header = re.sub(rb"7F000001[0-9A-F]{24}", MESSAGE_ID, header)
            body = body.replace(broker.encode(), ADDRESS)
            answers[question.name] = GoldenAnswer(question.name, found, header, body)
    return answers


def write_answers(answers: dict[str, GoldenAnswer], path: Path) -> None:
    """Write a recording that `pyromq.testing.golden.read_answers` reads."""
    path.write_text(
        "\n".join(
            f"## {one.name}\n  hdr {one.serializer} {one.header!r}\n  body {one.body!r}"
            for one in answers.values()
        )
        + "\n"
    )


def _send(
    name: str, properties: str, *, topic: str = TOPIC, sys_flag: int = 0, is_batch: bool = False
) -> Question:
    fields = {
        "a": "g",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 1,
        "f": sys_flag,
        "g": 1_700_000_000_000,
        "h": 0,
        "i": properties,
        "j": 0,
        "k": "false",
        "l": 16,
        "m": "true" if is_batch else "false",
    }
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    body = _unit(b"UNIQ_KEY\x01AA\x02") + _unit(b"UNIQ_KEY\x01BB\x02") if is_batch else b"x"
    return Question(name, code, {key: str(value) for key, value in fields.items()}, body, to_broker=True)


def _unit(properties: bytes) -> bytes:
    """Return one message of a batch."""
    size = _UNIT.size + 1 + 2 + len(properties)
    return _UNIT.pack(size, 0, 0, 0, 1) + b"x" + struct.pack(">h", len(properties)) + properties


def _connected(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def _receive(link: socket.socket) -> tuple[int, bytes, bytes]:
    length, mark = _LENGTHS.unpack(_read(link, _LENGTHS.size))
    rest = _read(link, length - 4)
    header_length = mark & 0xFFFFFF
    return mark >> 24, rest[:header_length], rest[header_length:]


def _read(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = link.recv(count - len(data))
        assert piece, "the server hung up"
        data += piece
    return data
