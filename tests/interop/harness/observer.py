"""Look at servers over the wire without any code of ours or of a client library.

The tests' own, small reading of the protocol: what the programs report is compared with what this sees, so a
mistake that our client and our broker share cannot hide.
"""

import itertools
import json
import re
import socket
import struct
import zlib
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 10
SUCCESS, SYSTEM_ERROR, TOPIC_NOT_EXIST, PULL_NOT_FOUND, QUERY_NOT_FOUND = 0, 1, 17, 19, 22
JAVA_4_9_8 = 409
COMPRESSED = 1


@dataclass(frozen=True)
class Stored:
    """A message as it lies in a queue."""

    broker: str
    queue: int
    offset: int
    position: int
    offset_id: str
    stored_at_ms: int
    times: int
    body: bytes
    flags: tuple[int, int]  # the sender's flag, and the system's
    properties_text: str
    properties: dict[str, str]
    unique_keys: list[str]  # all of them: brokers add a batch's properties to those of each message in it


class Observer:
    """Asks a cluster's servers, one short connection a question."""

    def __init__(self, name_server: str) -> None:
        self._name_server = name_server
        self._opaque = itertools.count(1)

    def queues(self, topic: str) -> dict[str, tuple[str, int]]:
        """Return each broker that serves a topic: its name → its address and number of queues."""
        code, _, body = self._ask(self._name_server, 105, topic=topic, acceptStandardJsonOnly="true")
        if code == TOPIC_NOT_EXIST:
            return {}
        assert code == SUCCESS, body
        route = json.loads(body)
        addresses = {data["brokerName"]: data["brokerAddrs"]["0"] for data in route["brokerDatas"]}
        return {
            data["brokerName"]: (addresses[data["brokerName"]], data["readQueueNums"])
            for data in route["queueDatas"]
        }

    def replicas(self, broker_name: str) -> dict[int, str]:
        """Return the brokers that the name server has under one name: their ids and addresses."""
        code, _, body = self._ask(self._name_server, 106)
        assert code == SUCCESS, body
        broker = loads(body)["brokerAddrTable"].get(broker_name, {"brokerAddrs": {}})
        return {int(number): address for number, address in broker["brokerAddrs"].items()}

    def table(self, address: str, code: int) -> Any:
        """Return one of the tables that a slave copies from its master."""
        answer, _, body = self._ask(address, code)
        assert answer == SUCCESS, (code, answer, body)
        return loads(body)

    def members(self, group: str, broker: str) -> list[str]:
        """Return the client ids that a broker counts in a group."""
        code, _, body = self._ask(broker, 38, consumerGroup=group)
        return json.loads(body)["consumerIdList"] if code == SUCCESS and body else []

    def committed(self, group: str, topic: str) -> dict[tuple[str, int], int | None]:
        """Return a group's committed offset of each queue."""
        found: dict[tuple[str, int], int | None] = {}
        for name, (address, count) in self.queues(topic).items():
            for queue in range(count):
                code, ext, _ = self._ask(
                    address, 14, consumerGroup=group, topic=topic, queueId=queue, setZeroIfNotFound="false"
                )
                found[name, queue] = int(ext["offset"]) if code == SUCCESS else None
        return found

    def ends(self, topic: str) -> dict[tuple[str, int], int]:
        """Return the maximum offset of each queue."""
        return {
            (name, queue): int(self._ask(address, 30, topic=topic, queueId=queue)[1]["offset"])
            for name, (address, count) in self.queues(topic).items()
            for queue in range(count)
        }

    def stored(self, topic: str) -> list[Stored]:
        """Read a topic from its start to its end, queue by queue."""
        return [
            message
            for name, (address, count) in self.queues(topic).items()
            for queue in range(count)
            for message in self._read_queue(name, address, topic, queue)
        ]

    def end(self, address: str, topic: str, queue: int) -> int:
        """Return the maximum offset of a queue at one broker, whatever its role."""
        return int(self._ask(address, 30, topic=topic, queueId=queue)[1]["offset"])

    def read(self, address: str, topic: str, queue: int, start: int = 0) -> list[Stored]:
        """Read a queue at one broker, whatever its role, from an offset to its end."""
        return self._read_queue("", address, topic, queue, start)

    def send(self, address: str, topic: str) -> int:
        """Try to send a message to one broker, whatever its role, and return the answer's code."""
        return self._ask(
            address,
            10,
            producerGroup="interop_observer",
            topic=topic,
            defaultTopic="TBW102",
            defaultTopicQueueNums=4,
            queueId=0,
            sysFlag=0,
            bornTimestamp=0,
            flag=0,
            properties="",
            reconsumeTimes=0,
            unitMode="false",
            batch="false",
        )[0]

    def ask(
        self, address: str, code: int, body: bytes = b"", **fields: Any
    ) -> tuple[int, dict[str, str], bytes]:
        """Send any request to one server, and return the answer's code, fields and body."""
        return self._ask(address, code, body, **fields)

    def _read_queue(self, name: str, address: str, topic: str, queue: int, start: int = 0) -> list[Stored]:
        messages: list[Stored] = []
        while True:
            code, ext, body = self._ask(
                address,
                11,
                consumerGroup="interop_observer",
                topic=topic,
                queueId=queue,
                queueOffset=start + len(messages),
                maxMsgNums=32,
                sysFlag=4,
                commitOffset=0,
                suspendTimeoutMillis=0,
                subscription="*",
                subVersion=0,
                expressionType="TAG",
            )
            if code == PULL_NOT_FOUND:
                return messages
            assert code == SUCCESS, (code, ext)
            messages += _records(name, body)
            assert int(ext["nextBeginOffset"]) == start + len(messages)

    def _ask(
        self, address: str, code: int, content: bytes = b"", /, **fields: Any
    ) -> tuple[int, dict[str, str], bytes]:
        host, _, port = address.rpartition(":")
        header = {
            "code": code,
            "language": "JAVA",
            "version": JAVA_4_9_8,
            "opaque": next(self._opaque),
            "flag": 0,
            "extFields": {key: str(value) for key, value in fields.items()},
            "serializeTypeCurrentRPC": "JSON",
        }
        text = json.dumps(header).encode()
        with socket.create_connection((host, int(port)), TIMEOUT_S) as link, link.makefile("rb") as answers:
            link.sendall(struct.pack(">II", 4 + len(text) + len(content), len(text)) + text + content)
            (length,) = struct.unpack(">I", answers.read(4))
            frame = answers.read(length)
        header_length = struct.unpack(">I", frame[:4])[0] & 0xFFFFFF
        answer = json.loads(frame[4 : 4 + header_length])
        assert answer["opaque"] == header["opaque"]
        return answer["code"], answer.get("extFields") or {}, frame[4 + header_length :]


def loads(text: bytes) -> Any:
    """Read what fastjson writes: numbers that are keys have no quotes."""
    return json.loads(re.sub(rb"([{,]\s*)(\d+):", rb'\1"\2":', text))


_FIXED = struct.Struct(
    ">IIIIIqqIq"
)  # size, magic, crc, queue, flag, queue offset, position, system flag, born


def _records(broker: str, data: bytes) -> list[Stored]:
    messages = []
    while data:
        size, magic, crc, queue, flag, offset, position, flags, _ = _FIXED.unpack_from(data)
        assert magic in (0xDAA320A7, 0xDAA320AB)
        at = _FIXED.size + (20 if flags & 0x10 else 8)
        (stored_at_ms,) = struct.unpack_from(">q", data, at)
        at += 8
        store_host = data[at : at + (20 if flags & 0x20 else 8)]
        at += len(store_host)
        times, _, body_length = struct.unpack_from(">IqI", data, at)
        at += 16
        body = data[at : at + body_length]
        assert zlib.crc32(body) & 0x7FFFFFFF == crc
        at += body_length
        width = 1 if magic == 0xDAA320A7 else 2
        at += width + int.from_bytes(data[at : at + width])
        text = data[at + 2 : size].decode()
        pairs = [
            (name, value)
            for name, _, value in (part.partition("\x01") for part in text.split("\x02"))
            if name
        ]
        messages.append(
            Stored(
                broker,
                queue,
                offset,
                position,
                (store_host + struct.pack(">q", position)).hex().upper(),
                stored_at_ms,
                times,
                zlib.decompress(body) if flags & COMPRESSED else body,
                (flag, flags),
                text,
                dict(pairs),
                [value for name, value in pairs if name == "UNIQ_KEY"],
            )
        )
        data = data[size:]
    return messages
