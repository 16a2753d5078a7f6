"""Recordings of a real RocketMQ, to compare ours with.

`golden_4.9.8.txt` has the answers to one request of nearly every code, each under a name:

    ## max offset
      hdr 0 b'{"code":0,…}'
      body b''

The `.jsonl` files have every frame between a client and the servers, one a line. Their README tells where
they came from.
"""

import ast
import base64
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pyromq.codes import Serializer
from pyromq.wire.command import Command, decode_header

#: Answers in `golden_4.9.8.txt` were recorded up to this many bytes of body.
ANSWER_BODY_BYTES_MAX = 1500

_ANSWER = re.compile(
    r"^## (?P<name>.+)\n  hdr (?P<serializer>\d) (?P<header>b.*)\n  body (?P<body>b.*)$", re.MULTILINE
)
_LEFT_OUT = re.compile(r"<\d+ bytes>")


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    """An answer of 4.9.8; `is_cut` says that the recorder kept the first bytes of the body only."""

    name: str
    serializer: int
    header: bytes
    body: bytes

    @property
    def is_cut(self) -> bool:
        """Whether the end of the body is missing."""
        return len(self.body) >= ANSWER_BODY_BYTES_MAX

    @property
    def command(self) -> Command:
        """The answer, decoded anew at each call."""
        command = decode_header(self.header, self.serializer)
        command.body = self.body
        return command


@dataclass(frozen=True, slots=True)
class GoldenFrame:
    """One recorded frame; `body` is None where the recorder left it out for its length."""

    line: int
    from_client: bool
    port: int
    serializer: int
    header: bytes
    body: bytes | None

    @property
    def command(self) -> Command:
        """The command, decoded anew at each call."""
        command = decode_header(self.header, self.serializer)
        command.body = self.body or b""
        return command


@dataclass(frozen=True, slots=True)
class GoldenExchange:
    """A request and its answer."""

    request: GoldenFrame
    answer: GoldenFrame


class _Line(msgspec.Struct):
    dir: str
    ser: int
    header: str
    body: str


def read_answers(path: Path) -> dict[str, GoldenAnswer]:
    """Return the answers of `golden_4.9.8.txt` by name."""
    return {
        match["name"]: GoldenAnswer(
            match["name"],
            int(match["serializer"]),
            ast.literal_eval(match["header"]),
            ast.literal_eval(match["body"]),
        )
        for match in _ANSWER.finditer(path.read_text())
    }


def read_frames(path: Path) -> list[GoldenFrame]:
    """Return the frames of a `.jsonl` recording in their order."""
    frames = []
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        line = msgspec.json.decode(text, type=_Line)
        direction, port = line.dir.split()
        is_json = line.ser == Serializer.JSON
        frames.append(
            GoldenFrame(
                line=number,
                from_client=direction == "c>s",
                port=int(port),
                serializer=line.ser,
                header=line.header.encode() if is_json else base64.b64decode(line.header),
                body=None if _LEFT_OUT.fullmatch(line.body) else line.body.encode("latin-1"),
            )
        )
    return frames


def pair_up(frames: list[GoldenFrame]) -> list[GoldenExchange]:
    """Return the requests that were answered, each with its answer.

    A recording mixes connections, so two requests under way may have one opaque number; those are left out.
    """
    waiting: dict[tuple[bool, int, int], list[GoldenFrame]] = {}
    exchanges = []
    for frame in frames:
        command = frame.command
        if not command.is_response:
            if not command.is_oneway:
                waiting.setdefault((frame.from_client, frame.port, command.opaque), []).append(frame)
            continue
        asked = waiting.pop((not frame.from_client, frame.port, command.opaque), [])
        if len(asked) == 1:
            exchanges.append(GoldenExchange(asked[0], frame))
    return exchanges
