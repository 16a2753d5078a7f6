"""One meaning, two speeds, with access control: the kernel lets pass what Python lets pass.

A broker with the kernel and one without get the same requests at the same time. Accounts, permissions and
white lists change between the requests. Every answer is the same, and so is what is stored, what was
committed, and how many requests were refused. Ends of transactions and send-backs name messages that the
requests before them stored.
"""

import asyncio
import json
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from effort import times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode, Serializer
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess
from pyromq.kernel import WHY_PURE
from pyromq.system_names import TRANSACTION_HALF
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import batch_body, pull_fields, send_fields, send_v2_fields
from pyromq.wire.command import Command, encode
from pyromq.wire.record import Record
from pyromq.wire.signature import SIGNATURE, signature

pytestmark = pytest.mark.skipif(WHY_PURE is not None, reason=f"there is nothing to compare: {WHY_PURE}")

OPERATOR, OPERATOR_SECRET = "the-operator", "operators-secret"
ACCOUNTS = ("web-shop", "billing-service")
SECRETS = ("the-first-secret", "the-second-secret")
TOPICS, GROUPS = ("orders", "payments"), ("readers", "auditors")

# Accounts ---------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["DENY", "PUB", "SUB", "PUB|SUB", "PUB|SUB", "PUB|SUB", None])
WHITE = st.sampled_from(["", "", "", "127.0.0.1", "10.0.0.*"])


@st.composite
def accounts_files(draw: st.DrawFn) -> str:
    """The text of an account file: JSON, which YAML reads."""
    listed: list[dict[str, Any]] = [
        {"accessKey": OPERATOR, "secretKey": OPERATOR_SECRET, "admin": "true", "whiteRemoteAddress": ""}
    ]
    for name in ACCOUNTS:
        if draw(st.integers(0, 7)) == 0:
            continue
        perms = {kind: {one: draw(WORDS) for one in names} for kind, names in (("t", TOPICS), ("g", GROUPS))}
        listed.append(
            {
                "accessKey": name,
                "secretKey": SECRETS[draw(st.sampled_from([0, 0, 0, 1]))],
                "whiteRemoteAddress": draw(WHITE),
                "admin": draw(st.sampled_from(["false", "false", "false", "true"])),
                "defaultTopicPerm": draw(WORDS) or "",
                "defaultGroupPerm": draw(WORDS) or "",
                "topicPerms": [f"{one}={word}" for one, word in perms["t"].items() if word],
                "groupPerms": [f"{one}={word}" for one, word in perms["g"].items() if word],
            }
        )
    white = draw(st.sampled_from([[], [], [], [], ["127.0.0.*"], ["10.0.0.1"]]))
    return json.dumps({"globalWhiteRemoteAddresses": white, "accounts": listed})


OPEN = json.dumps(
    {
        "accounts": [
            {"accessKey": OPERATOR, "secretKey": OPERATOR_SECRET, "admin": "true"},
            *(
                {
                    "accessKey": name,
                    "secretKey": SECRETS[0],
                    "defaultTopicPerm": "PUB|SUB",
                    "defaultGroupPerm": "SUB",
                }
                for name in ACCOUNTS
            ),
        ]
    }
)

# Requests ---------------------------------------------------------------------------------------------------

HALF = {"TRAN_MSG": "true", "PGROUP": "payers"}
END = {"producerGroup": "payers", "msgId": "id"}


@dataclass(frozen=True)
class Asked:
    """A request of an account; `changes` are made behind the signature, None takes a field away."""

    code: int
    fields: dict[str, Any]
    body: bytes = b""
    account: tuple[str, str] = (ACCOUNTS[0], SECRETS[0])
    serializer: int = Serializer.JSON
    changes: dict[str, str | None] = field(default_factory=dict)
    sent_body: bytes | None = None
    #: Which of the stored messages it names.
    which: int = 0

    def frame(self, halves: list[Record], messages: list[Record]) -> bytes:
        """Return its bytes, when these messages are stored."""
        fields = self.fields | self._place(halves, messages)
        ext = {name: one if isinstance(one, str) else str(one).lower() for name, one in fields.items()}
        ext["AccessKey"] = self.account[0]
        ext[SIGNATURE] = signature(ext, self.body, self.account[1].encode())
        for name, text in self.changes.items():
            ext.pop(name, None)
            if text is not None:
                ext[name] = text
        sent = self.body if self.sent_body is None else self.sent_body
        return encode(Command(self.code, opaque=self.code, ext=ext, body=sent, serializer=self.serializer))

    def _place(self, halves: list[Record], messages: list[Record]) -> dict[str, int]:
        if self.code == RequestCode.END_TRANSACTION:
            # The newest first, and now and then it names what is no half.
            found = [*reversed(halves), *messages[:2]]
            half = found[self.which % len(found)]
            return {"commitLogOffset": half.position, "tranStateTableOffset": half.queue_offset}
        if self.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            found = [*messages, *halves[:2]]
            return {"offset": found[self.which % len(found)].position}
        return {}


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    topic, group = draw(st.sampled_from(TOPICS)), draw(st.sampled_from(GROUPS))
    kind = draw(st.integers(0, 9))
    properties = draw(st.sampled_from([{}, {"TAGS": "a"}, {"KEYS": 'k "1" \\', "TAGS": "b"}, {"KEYS": "ü"}]))
    body = draw(st.binary(max_size=90))
    if kind == 0:
        return Asked(RequestCode.SEND_MESSAGE, send_fields(topic, properties), body)
    if kind <= 2:
        waits = draw(st.sampled_from([{}, {}, HALF, {"DELAY": "1"}]))
        return Asked(RequestCode.SEND_MESSAGE_V2, send_v2_fields(topic, properties | waits), body)
    if kind == 3:
        fields = send_v2_fields(topic, properties, batch=True)
        return Asked(RequestCode.SEND_BATCH_MESSAGE, fields, batch_body([body, b"two"], {"TAGS": "a"}))
    if kind <= 5:
        fate, which = draw(st.sampled_from([8, 8, 12])), draw(st.integers(0, 20))
        return Asked(RequestCode.END_TRANSACTION, END | {"commitOrRollback": fate}, which=which)
    if kind <= 7:
        back = {"group": group, "delayLevel": draw(st.sampled_from([0, 0, 1, -1]))}
        return Asked(RequestCode.CONSUMER_SEND_MSG_BACK, back, which=draw(st.integers(0, 20)))
    place = {"consumerGroup": group, "topic": topic, "queueId": 0}
    if kind == 8:
        if draw(st.booleans()):
            return Asked(RequestCode.QUERY_CONSUMER_OFFSET, place)
        commit = place | {"commitOffset": draw(st.integers(0, 20))}
        return Asked(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    fields = pull_fields(topic, group, queueOffset=draw(st.integers(0, 3)), maxMsgNums=2)
    return Asked(RequestCode.PULL_MESSAGE, fields)


CHANGES: st.SearchStrategy[dict[str, str | None]] = st.sampled_from(
    [
        {"Signature": None},
        {"Signature": ""},
        {"Signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="},
        {"AccessKey": None},
        {"AccessKey": None, "Signature": None},
        {"AccessKey": ACCOUNTS[1]},
        {"AccessKey": "unknown"},
        {"b": "payments"},
        {"topic": "payments"},
        {"b": None},
        {"consumerGroup": "auditors"},
        {"group": "auditors"},
        {"offset": "0"},
        {"commitLogOffset": "0"},
        {"commitLogOffset": "077"},
        {"commitOrRollback": "12"},
        {"i": ""},
        {"zz": "more"},
        {"zz": ""},
        {"_UNIQUE_KEY_QUERY": "true"},
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> Asked:
    one = draw(asked())
    account = (draw(st.sampled_from(ACCOUNTS)), SECRETS[draw(st.sampled_from([0, 0, 0, 0, 0, 1]))])
    one = replace(one, account=account, serializer=draw(st.sampled_from(list(Serializer))))
    spoils = draw(st.integers(0, 5))
    if spoils == 0:
        one = replace(one, changes=draw(CHANGES))
    if spoils == 1:
        one = replace(one, sent_body=draw(st.binary(max_size=3)))
    # Its place among the fields of JSON is a matter of Java's map, so other names move it.
    return replace(one, fields=one.fields | {"zz": "x"}) if draw(st.booleans()) else one


def first() -> list[list[Asked]]:
    """Return what makes topics and progress, and teaches the kernel; the first round is not on disk yet."""
    sends, waiting, ends, backs = [], [], [], []
    for account in ACCOUNTS:
        for topic in TOPICS:
            one = Asked(310, send_v2_fields(topic, {"TAGS": "a"}), b"first", (account, SECRETS[0]))
            sends.append(one)
            waiting += [replace(one, fields=send_v2_fields(topic, more)) for more in (HALF, {"DELAY": "1"})]
            for group in GROUPS:
                place = {"consumerGroup": group, "topic": topic, "queueId": 0}
                for code, fields in (
                    (11, pull_fields(topic, group)),
                    (15, place | {"commitOffset": 1}),
                    (14, place),
                ):
                    sends.append(replace(one, code=code, fields=fields, body=b""))
            end = Asked(RequestCode.END_TRANSACTION, END | {"commitOrRollback": 8}, b"", one.account)
            # The oldest halves: there are twelve then.
            ends.append(replace(end, which=8 + len(ends)))
        for which, group in enumerate(GROUPS):
            fields = {"group": group, "delayLevel": 1}
            backs.append(
                Asked(RequestCode.CONSUMER_SEND_MSG_BACK, fields, b"", (account, SECRETS[0]), which=which)
            )
    # The first that a group sends back makes its topic, and is answered when that is on disk.
    return [
        sends,
        sends,
        *([one] for one in backs),
        *([one] for one in backs),
        sends,
        waiting,
        waiting,
        waiting,
        ends,
        backs,
    ]


# Two brokers ------------------------------------------------------------------------------------------------


@dataclass
class Side:
    """One of the two brokers, and a connection to it."""

    folder: Path
    use_kernel: bool
    clock: ManualClock

    async def start(self) -> None:
        (self.folder / "conf").mkdir(parents=True)
        (self.folder / "conf" / "plain_acl.yml").write_text(OPEN)
        own = {
            "store_path_root_dir": str(self.folder / "data"), "listen_port": 0, "broker_ip1": "127.0.0.1",
            "acl_enable": True, "acl_folder": str(self.folder / "conf"),
            "mapped_file_size_commit_log": 100_000, "max_hash_slot_num": 50, "max_index_num": 900,
        }  # fmt: skip
        self.broker = Broker(build(BrokerProcess, own), clock=self.clock, use_kernel=self.use_kernel)
        await self.broker.start()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.broker.port)

    async def change(self, text: str) -> None:
        """Write other accounts, and have the broker look."""
        path = self.folder / "conf" / "plain_acl.yml"
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)
        access = self.broker._access
        assert access is not None
        await access.look()

    def stored(self) -> tuple[list[Record], list[Record]]:
        """Return the halves that are stored, and the messages that somebody may read."""
        store, found = self.broker.store, []
        for topics in ((TRANSACTION_HALF,), TOPICS):
            entries = [entry for topic in topics for entry in store.entries(topic, 0, 0, 1000)]
            records = [store.record_at(entry.position) for entry in entries]
            found.append([record for record in records if record is not None])
        return found[0], found[1]

    async def ask(self, frames: list[bytes]) -> list[bytes]:
        """Send requests at once, and return their answers without this side's port."""
        self.writer.write(b"".join(frames))
        return [await self._answer() for _ in frames]

    async def _answer(self) -> bytes:
        head = await asyncio.wait_for(self.reader.readexactly(4), 20)
        return self._masked(await self.reader.readexactly(int.from_bytes(head, "big")))

    def _masked(self, data: bytes) -> bytes:
        own_port = self.writer.get_extra_info("sockname")[1]
        for port in (self.broker.port, own_port):
            host = bytes((127, 0, 0, 1)) + port.to_bytes(4, "big")
            data = data.replace(host, b"the-host").replace(host.hex().upper().encode(), b"the-host" * 2)
            data = data.replace(b"127.0.0.1:%d" % port, b"the-host")
        return data

    async def close(self) -> None:
        self.writer.close()
        await self.broker.close()

    def left(self) -> dict[str, object]:
        """Return what is on the disk, and what was counted."""
        access = self.broker._access
        assert access is not None
        files: dict[str, object] = {
            path.relative_to(self.folder).as_posix(): self._masked(path.read_bytes())
            for part in ("commitlog", "consumequeue")
            for path in sorted((self.folder / "data" / part).rglob("*"))
            if path.is_file()
        }
        # Java's JSON has numbers for names; the order of its entries is that of their first commits.
        progress = (self.folder / "data/config/consumerOffset.json").read_text().replace(",", "")
        return files | {"progress": sorted(progress.split()), "refused": access.refused_count}


async def compare(folder: Path, steps: list[str | list[Asked]]) -> None:
    clock = ManualClock()
    compiled, pure = sides = [Side(folder / str(number), number == 0, clock) for number in range(2)]
    for side in sides:
        await side.start()
    for step in [*first(), *steps]:
        if isinstance(step, str):
            for side in sides:
                await side.change(step)
        else:
            stored = pure.stored()
            frames = [one.frame(*stored) for one in step]
            assert await compiled.ask(frames) == await pure.ask(frames)
    for side in sides:
        await side.close()
    assert compiled.left() == pure.left()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Warnings are what is expected here."""
    log = logging.getLogger("pyromq")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@settings(max_examples=times(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.one_of(
            st.lists(requests(), min_size=4, max_size=20),
            st.lists(requests(), min_size=4, max_size=20),
            accounts_files(),
        ),
        min_size=3,
        max_size=12,
    )
)
def test_the_kernel_and_python_let_the_same_requests_pass(steps: list[str | list[Asked]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder), steps))
