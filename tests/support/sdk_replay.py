"""Plays to a broker what an SDK said to Apache's 5.5, and tells where the answers differ.

Recordings have names for what differs from run to run (`ID-1`, `HANDLE-2`). What the SDK made is made anew.
What the server made is taken from the answers, and stands for its name from then on.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from grpc_sdk import Sdk, SdkStream

from pyromq.testing.cluster import Cluster
from pyromq.wire.grpc import grpc_messages as pb

Json = dict[str, Any]

#: Values that stand for anything, and are not compared.
ANYTHING = ("TIME", "HOST", "PORT", "PLATFORM", "N")
NUMBERED = ("ID", "TRANSACTION", "HANDLE", "RECALL", "ATTEMPT", "NONCE")
#: Headers that are the same in all calls of an SDK.
KEPT = ("x-mq-language", "x-mq-client-version", "x-mq-protocol", "x-mq-protocol-version", "x-mq-namespace")
#: Seconds for an answer; spent only where a test fails.
CALL_S = 30.0
#: A receive that found nothing at Apache's may have waited for 20 s; here it waits for less than this.
EMPTY_S = 1.5


@dataclass
class Names:
    """What the names of a recording stand for in this run."""

    values: dict[str, str] = field(default_factory=dict)
    ids: int = 0

    def real(self, value: Any) -> Any:
        """Return a recorded request with values in the place of names."""
        if isinstance(value, list):
            return [self.real(each) for each in value]
        if isinstance(value, dict):
            due_in_s = value.get("due_in_s", 0)
            return {
                name: self._field(name, each, due_in_s)
                for name, each in value.items()
                if name != "due_in_s" and each != "N"
            }
        return value

    def _field(self, name: str, value: Any, due_in_s: int) -> Any:
        if value == "TIME":
            moment = time.time() + (due_in_s if name == "delivery_timestamp" else 0)
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
        if value == "PORT":
            return 8081
        if not isinstance(value, str) or value.partition("-")[0] not in ("ID", "ATTEMPT"):
            return self.values.get(value, value) if isinstance(value, str) else self.real(value)
        if value not in self.values:
            self.ids += 1
            self.values[value] = f"01{self.ids:032X}"
        return self.values[value]

    def faults(self, told: Any, here: Any, place: str) -> list[str]:
        """Compare a recorded answer with one of this run, and learn what names stand for."""
        if isinstance(told, dict) and isinstance(here, dict):
            names = [name for name in {**told, **here} if "N" not in (told.get(name), here.get(name))]
            return [
                fault
                for name in names
                if name != "due_in_s"
                for fault in self.faults(told.get(name), here.get(name), f"{place}.{name}")
            ]
        if isinstance(told, list) and isinstance(here, list) and len(told) == len(here):
            pairs = zip(told, here, strict=True)
            return [
                fault
                for number, (one, other) in enumerate(pairs)
                for fault in self.faults(one, other, f"{place}[{number}]")
            ]
        if isinstance(told, str) and told in ANYTHING:
            return [] if here is not None else [f"{place} is missing"]
        if isinstance(told, str) and told.partition("-")[0] in NUMBERED and isinstance(here, str) and here:
            told = self.values.setdefault(told, here)
        return [] if told == here else [f"{place}: {told!r} at Apache's, {here!r} here"]


@dataclass
class Replay:
    """One SDK's recording, played to a cluster's first broker."""

    address: str
    headers: dict[str, str]
    names: Names = field(default_factory=Names)
    faults: list[str] = field(default_factory=list)
    clients: dict[str, Sdk] = field(default_factory=dict)
    streams: dict[str, SdkStream] = field(default_factory=dict)
    #: What Apache's server asked by a stream, until it is asked here.
    questions: dict[str, list[Json]] = field(default_factory=dict)

    async def play(self, lines: list[Json]) -> None:
        """Play all calls, one after the other."""
        try:
            for number, line in enumerate(lines):
                how = {"Telemetry": self._telemetry, "ReceiveMessage": self._receive}.get(
                    line["rpc"], self._call
                )
                before = len(self.faults)
                await how(line)
                self.faults[before:] = [f"{number}. {fault}" for fault in self.faults[before:]]
        finally:
            for stream in self.streams.values():
                stream.cancel()
            for sdk in self.clients.values():
                await sdk.__aexit__(None, None, None)

    def _sdk(self, client: str) -> Sdk:
        if client not in self.clients:
            self.clients[client] = Sdk(self.address, client, **self.headers)
        return self.clients[client]

    async def _call(self, line: Json) -> None:
        rpc = line["rpc"]
        if rpc == "EndTransaction":
            await self._question(line)
        [told] = line["answers"]
        request = ParseDict(self.names.real(line["requests"][0]), getattr(pb, f"{rpc}Request")())
        answer = _shown(await self._sdk(line["client"]).call(rpc, request, timeout=CALL_S))
        if rpc == "SendMessage":
            _without_plain_transactions(line["requests"][0], told, answer)
        self.faults += self.names.faults(told, answer, rpc)

    async def _telemetry(self, line: Json) -> None:
        client = line["client"]
        if client not in self.streams:
            self.streams[client] = self._sdk(client).telemetry()
        stream = self.streams[client]
        settings = [told for told in line["answers"] if "settings" in told]
        for request, told in zip(line["requests"], settings, strict=False):
            await stream.say(ParseDict(self.names.real(request), pb.TelemetryCommand()))
            answer = _shown(await asyncio.wait_for(stream.next(), CALL_S))
            self.faults += self.names.faults(told, answer, "Telemetry")
        self.questions.setdefault(client, []).extend(told for told in line["answers"] if told not in settings)

    async def _question(self, line: Json) -> None:
        """Wait for the question that an SDK answers with this end of a transaction, if it does."""
        asked = "recover_orphaned_transaction_command"
        for told in self.questions.get(line["client"], []):
            if told[asked]["transaction_id"] == line["requests"][0]["transaction_id"]:
                command = await self._next(line["client"], asked)
                self.faults += self.names.faults(told, command, "Telemetry")
                self.questions[line["client"]].remove(told)
                return

    async def _next(self, client: str, kind: str) -> Json:
        """Return the next command of a kind; Node is told its settings twice."""
        while True:
            command = _shown(await asyncio.wait_for(self.streams[client].next(), CALL_S))
            if kind in command:
                return command

    async def _receive(self, line: Json) -> None:
        if "Settings.getClientType" in line["answers"][0]["status"]["message"]:
            # Python's and Go's first receive overtook their settings. Apache's refuses it, ours does not.
            return
        told = {
            each["message"]["system_properties"]["message_id"]: each for each in _messages(line["answers"])
        }
        request = ParseDict(self.names.real(line["requests"][0]), pb.ReceiveMessageRequest())
        sdk = self._sdk(line["client"])
        until = time.monotonic() + CALL_S
        while True:
            call = sdk.receive("ReceiveMessage", request, timeout=CALL_S if told else EMPTY_S)
            answers = [_shown(each) async for each in call]
            code = "OK" if _messages(answers) else "MESSAGE_NOT_FOUND"
            self.faults += [] if _is_stream(answers, code) else [f"ReceiveMessage: {answers}"]
            for each in _messages(answers):
                self._match(each, told)
            if not told or time.monotonic() > until:
                break
        self.faults += [f"ReceiveMessage: {name} never came" for name in told]

    def _match(self, here: Json, told: dict[str, Json]) -> None:
        message_id = here["message"]["system_properties"]["message_id"]
        name = next((name for name in told if self.names.values.get(name) == message_id), None)
        if name is None:
            self.faults.append(f"ReceiveMessage: nobody waited for {here}")
        else:
            self.faults += self.names.faults(told.pop(name), here, "ReceiveMessage")


def _shown(message: Any) -> Json:
    return MessageToDict(message, preserving_proto_field_name=True)


def _messages(answers: list[Json]) -> list[Json]:
    return [each for each in answers if "message" in each]


def _is_stream(answers: list[Json], code: str) -> bool:
    """Whether the parts come in the order that SDKs want: status, messages, the moment."""
    kinds = [next(iter(each)) for each in answers]
    return (
        kinds == ["status", *["message"] * (len(answers) - 2), "delivery_timestamp"]
        and answers[0]["status"]["code"] == code
    )


def _without_plain_transactions(request: Json, told: Json, answer: Json) -> None:
    """Forget ids of transactions of messages that are in none: Apache's gives the message's."""
    for message, one, other in zip(
        request["messages"], told["entries"], answer.get("entries", []), strict=False
    ):
        if message["system_properties"]["message_type"] != "TRANSACTION":
            one.pop("transaction_id", None)
            other.pop("transaction_id", None)


def read_recording(path: Path) -> tuple[dict[str, str], list[Json]]:
    """Return the headers that all calls of a recording have, and its calls."""
    first, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    headers = first["headers"]
    return {name: headers[name][0] for name in KEPT if name in headers}, lines


async def replay(cluster: Cluster, path: Path) -> list[str]:
    """Play a recording, and return where the answers differ."""
    headers, lines = read_recording(path)
    played = Replay(cluster.grpc_addresses[0], headers)
    await played.play(lines)
    return played.faults
