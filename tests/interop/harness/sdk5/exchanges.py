"""What passed through a tap, as lines to keep: decoded, with names for what differs from run to run.

Ids, handles and moments are numbered in the order in which they first appear: `ID-1` is the same message id
wherever it stands.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from google.protobuf.json_format import MessageToDict

from harness.sdk5.grpc_tap import TappedCall
from pyromq.wire.grpc import grpc_messages

Line = dict[str, Any]

#: Fields whose values are numbered, and the name for each.
_NUMBERED = {
    "message_id": "ID",
    "transaction_id": "TRANSACTION",
    "receipt_handle": "HANDLE",
    "recall_handle": "RECALL",
    "attempt_id": "ATTEMPT",
    "nonce": "NONCE",
    "x-mq-client-id": "CLIENT",
}
#: Fields whose values only stand for something.
_MASKED = {
    "born_timestamp": "TIME",
    "store_timestamp": "TIME",
    "delivery_timestamp": "TIME",
    "born_host": "HOST",
    "store_host": "HOST",
    "hostname": "HOST",
    "platform": "PLATFORM",
    "port": "PORT",
    "queue_offset": "N",
    "offset": "N",
}
_HEADERS = {
    "x-mq-client-id": "CLIENT",
    "x-mq-request-id": "REQUEST",
    ":authority": "AUTHORITY",
    "date": "DATE",
}
#: What is told again and again; one of each kind is kept.
_REPEATED = ("Heartbeat", "QueryRoute", "QueryAssignment", "Telemetry", "EndTransaction", "ReceiveMessage")


class Masks:
    """Gives each value that differs from run to run a name that does not."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def masked(self, value: Any) -> Any:
        """Return a decoded message with names in the place of what differs."""
        if isinstance(value, list):
            return [self.masked(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "born_timestamp" in value and "delivery_timestamp" in value:
            delay = _seconds(value["delivery_timestamp"]) - _seconds(value["born_timestamp"])
            value = value | {"due_in_s": round(delay)}
        return {name: self._field(name, each) for name, each in value.items()}

    def _field(self, name: str, value: Any) -> Any:
        if isinstance(value, dict | list):
            return self.masked(value)
        if name in _NUMBERED and value != "":
            return self._numbered(_NUMBERED[name], str(value))
        return _MASKED.get(name, value)

    def _numbered(self, kind: str, value: str) -> str:
        count = sum(1 for known, _ in self._names if known == kind)
        return self._names.setdefault((kind, value), f"{kind}-{count + 1}")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _decoded(name: str, data: bytes) -> Line:
    message = getattr(grpc_messages, name)()
    message.ParseFromString(data)
    shown: Line = MessageToDict(message, preserving_proto_field_name=True)
    return shown


def _header(name: str, value: str) -> str:
    if name == "x-mq-date-time":
        return re.sub(r"\d", "9", value)
    if name == "authorization":
        return re.sub(r"Signature=([0-9A-F]+|[0-9a-f]+)$", lambda found: f"Signature={_hex(found[1])}", value)
    if name == "grpc-timeout":
        return re.sub(r"\d+", "N", value)
    return _HEADERS.get(name, value)


def _hex(text: str) -> str:
    return "HEX" if text == text.upper() else "hex"


def lines_of(calls: Sequence[TappedCall]) -> list[Line]:
    """Return what passed: a line with all headers, then one for each call, in the order of the answers.

    What is said again in the same words is left out.
    """
    masks = Masks()
    asked = sorted(
        (call for call in calls if call.request_headers and call.answers), key=lambda call: call.place
    )
    kept: list[Line] = []
    has_empty = False
    for call in asked:
        line = _line(call, masks)
        is_empty = line["answers"][0].get("status", {}).get("code") == "MESSAGE_NOT_FOUND"
        if not (line["rpc"] in _REPEATED and line in kept) and not (is_empty and has_empty):
            kept.append(line)
            has_empty |= is_empty
    return [{"headers": _headers_of(asked)}, *kept]


def _headers_of(calls: Sequence[TappedCall]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for call in calls:
        for name, value in call.request_headers:
            if name not in (":path", ":method"):
                found.setdefault(name, set()).add(_header(name, value))
    return {name: sorted(values) for name, values in sorted(found.items())}


def _line(call: TappedCall, masks: Masks) -> Line:
    rpc = call.rpc
    sent, answered = ("TelemetryCommand",) * 2 if rpc == "Telemetry" else (f"{rpc}Request", f"{rpc}Response")
    client = {"x-mq-client-id": dict(call.request_headers)["x-mq-client-id"]}
    line = {
        "rpc": rpc,
        "client": masks.masked(client)["x-mq-client-id"],
        "requests": [masks.masked(_decoded(sent, each)) for each in call.requests],
        "answers": _told_once([masks.masked(_decoded(answered, each)) for each in call.answers]),
    }
    status = dict(pair for block in call.answer_headers for pair in block).get("grpc-status", "0")
    return line if status == "0" else line | {"grpc-status": status}


def _told_once(answers: list[Line]) -> list[Line]:
    """Leave out what a server asks again while it waits for the answer."""
    asked = [each for each in answers if "recover_orphaned_transaction_command" in each]
    return [each for place, each in enumerate(answers) if each not in asked or each not in answers[:place]]
