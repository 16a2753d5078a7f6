"""Kill a real broker while it delivers delayed messages, ends transactions and takes messages back.

    run = KindsKill(folder, seed=7)
    await run.kill_often(10)
    await run.check()

The clock is the machine's, the delays are a second. What came due while the broker was dead is delivered when
it starts, and it is killed a fraction of a second later: so the kills fall into deliveries, questions and
ends. Which fate a transaction has stands in its message, so that its end and the answers to all questions
about it agree. A run with the same seed draws the same moments; what the machine does in between is its own
affair.
"""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Any

from forked_command import start_pyromq
from kinds_stage import Peer

from pyromq.clock import SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError
from pyromq.net.routes import Answer
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import decode_record

START_S_MAX = 60.0
WORKERS = 4
LEVELS = 4
ROUND_S = (0.05, 0.4)
#: How many times the kills that were asked for may be needed.
MORE_MAX = 20
PRODUCERS, READERS = "payers", "shop"
RETRY, DEAD = f"%RETRY%{READERS}", f"%DLQ%{READERS}"
COMMIT, ROLLBACK = 8, 12
SETTINGS = {
    "maxMessageSize": 65536,
    "messageDelayLevel": " ".join(["1s"] * LEVELS),
    "transactionTimeOut": 20,
    "transactionCheckInterval": 50,
    "transactionCheckMax": 1_000_000,
    "flushConsumerOffsetInterval": 100,
    "mappedFileSizeCommitLog": 4 << 20,
    "mappedFileSizeConsumeQueue": 20 * 3000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 30_000,
}
#: All that has no place in the log of a broker that is only ever killed.
ALARMS = ("Traceback", "ERROR", "CRITICAL", "damaged")
#: What a start says that found deliveries behind the saved progress.
FOUND = "were delivered after their progress was saved"


class KindsKill:
    """A broker's data, what it was sent, and what it acknowledged; messages are their bodies."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.chance = Random(seed)
        self.clock = SystemClock()
        self.address = ""
        self.acknowledged: dict[str, set[bytes]] = {topic: set() for topic in ("later", "paid", RETRY, DEAD)}
        self.starts_that_found = 0
        self.kills = 0
        self._count = 0
        self._process: ForkServerProcess | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        folder.mkdir()

    def next_id(self) -> str:
        """Return a unique id of a message."""
        self._count += 1
        return f"{self._count:032X}"

    async def kill_often(self, kills: int) -> None:
        """Work on the broker and kill it in the middle, so many times, and until all has come to pass.

        What is to come to pass is an acknowledgement of each kind, and a kill between a delivery and its
        saving: which kill does that is the machine's affair.
        """
        while self.kills < kills or not self._has_seen_all():
            assert self.kills < kills * MORE_MAX, f"not all came to pass; {self.summary}"
            client = await self._start()
            workers = [self._work(client) for _ in range(WORKERS)]
            asyncio.get_running_loop().call_later(self.chance.uniform(*ROUND_S), self._kill)
            await asyncio.gather(*workers)
            await self._end_round(client)
            self.kills += 1

    def _has_seen_all(self) -> bool:
        return bool(self.starts_that_found) and all(self.acknowledged.values())

    @property
    def summary(self) -> str:
        """The run in a line."""
        counts = ", ".join(f"{len(bodies)} in {topic}" for topic, bodies in self.acknowledged.items())
        return (
            f"seed {self.seed}: {self.kills} kills, {self.starts_that_found} of them between a delivery and "
            f"its saving; acknowledged {counts}; nothing lost, nothing twice"
        )

    async def check(self) -> None:
        """Start the broker once more, let it finish, and see that all is there, and there once."""
        client = await self._start()
        await aeventually(lambda: self._all_is_decided(client), START_S_MAX)
        markers = {b"marker %d" % level for level in range(1, LEVELS + 1)}
        for level in range(1, LEVELS + 1):
            # What waits on a level comes before its marker, and so does whatever comes twice.
            await client.send("later", b"marker %d" % level, properties={"DELAY": str(level)})
        await aeventually(lambda: self._has(client, "later", markers), START_S_MAX)
        for topic, promised in self.acknowledged.items():
            found = Counter(await self._bodies(client, topic))
            lost = promised - found.keys()
            twice = [body for body, count in found.items() if count > 1]
            assert not lost, f"seed {self.seed}: {topic} lost {len(lost)}: {sorted(lost)[:5]}"
            assert not twice, f"seed {self.seed}: in {topic} {len(twice)} came twice: {sorted(twice)[:5]}"
            assert not [body for body in found if fate_of(body) == ROLLBACK], f"seed {self.seed}: rolled back"
        self._kill()
        await self._end_round(client)

    def close(self) -> None:
        """End the broker that runs."""
        if self._process is not None and self._process.is_alive():
            self._kill()

    # The broker

    async def _start(self) -> Peer:
        ready, self._log = self.folder / "ready.json", self.folder / "log"
        ready.unlink(missing_ok=True)
        self._log.write_bytes(b"")
        options = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        places = ["--data", str(self.folder / "data"), "--ready-file", str(ready)]
        self._process = start_pyromq(["broker", "--port", "0", *places, *options], self._log)

        def hello() -> str | None:
            assert self._process is not None
            assert self._process.is_alive(), f"seed {self.seed}: {self._log.read_text()}"
            return (
                json.loads(ready.read_text())["broker"] if ready.exists() and ready.stat().st_size else None
            )

        self.address = await aeventually(hello, START_S_MAX, what="the broker is ready")
        client = Peer(self, "client")  # type: ignore[arg-type]  # a stage whose broker is a process
        client.answer = lambda command: self._asked(client, command)
        await client.heartbeat(producer=PRODUCERS, consumer=READERS)
        return client

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    async def _end_round(self, client: Peer) -> None:
        assert self._process is not None
        await asyncio.to_thread(self._process.join)
        assert self._process.exitcode == -signal.SIGKILL
        await client.close()
        await asyncio.gather(*self._tasks)
        text = self._log.read_text()
        alarms = [line for line in text.splitlines() if any(alarm in line for alarm in ALARMS)]
        assert not alarms, f"seed {self.seed}: {text}"
        self.starts_that_found += FOUND in text

    # The work

    async def _work(self, client: Peer) -> None:
        with suppress(NetworkError):
            while True:
                await self.chance.choice((self._send_later, self._send_back, self._pay))(client)

    def _new_body(self, kind: str) -> bytes:
        self._count += 1
        return f"{self._count} {kind}".encode()

    async def _send_later(self, client: Peer) -> None:
        body, level = self._new_body("later"), self.chance.randint(1, LEVELS)
        answer = await client.send("later", body, properties={"DELAY": str(level)})
        self._acknowledge(answer, "later", body)

    async def _send_back(self, client: Peer) -> None:
        body, level = self._new_body("again"), self.chance.choice((-1, 1, 2, LEVELS))
        sent = await client.send("orders", body)
        fields = {"offset": position_of(sent), "group": READERS, "delayLevel": level}
        answer = await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        self._acknowledge(answer, DEAD if level < 0 else RETRY, body)

    async def _pay(self, client: Peer) -> None:
        body = self._new_body(self.chance.choice(("commit", "roll back", "commit when asked")))
        properties = {"TRAN_MSG": "true", "PGROUP": PRODUCERS}
        sent = await client.send("paid", body, group=PRODUCERS, sys_flag=4, properties=properties)
        if fate_of(body) == COMMIT:
            # From here on the broker knows of it, and asks until it knows its fate.
            self._acknowledge(sent, "paid", body)
        if not body.endswith(b"asked"):
            offset = int((sent.ext or {})["queueOffset"])
            await self._end(client, body, offset, position_of(sent))

    def _asked(self, client: Peer, command: Command) -> Answer | None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._in_background(self._answer_question(client, command))
        return None

    async def _answer_question(self, client: Peer, question: Command) -> None:
        ext = question.ext or {}
        offset, position = int(ext["tranStateTableOffset"]), int(ext["commitLogOffset"])
        with suppress(NetworkError):
            await self._end(client, decode_record(question.body).body, offset, position)

    async def _end(self, client: Peer, body: bytes, offset: int, position: int) -> None:
        fields = {
            "producerGroup": PRODUCERS,
            "tranStateTableOffset": offset,
            "commitLogOffset": position,
            "commitOrRollback": fate_of(body),
            "msgId": "ID",
        }
        answer = await client.request(RequestCode.END_TRANSACTION, fields)
        is_second = "already" in (answer.remark or "")
        assert answer.code == ResponseCode.SUCCESS or is_second, f"seed {self.seed}: {answer.remark}"

    def _acknowledge(self, answer: Command, topic: str, body: bytes) -> None:
        assert answer.code == ResponseCode.SUCCESS, f"seed {self.seed}: {answer.remark}"
        self.acknowledged[topic].add(body)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What is there

    async def _all_is_decided(self, client: Peer) -> bool:
        queue = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": 0}
        reader = {"consumerGroup": "CID_RMQ_SYS_TRANS", **queue}
        end = await client.request(RequestCode.GET_MAX_OFFSET, queue)
        progress = await client.request(RequestCode.QUERY_CONSUMER_OFFSET, reader)
        return (end.ext or {})["offset"] == (progress.ext or {}).get("offset")

    async def _has(self, client: Peer, topic: str, bodies: set[bytes]) -> bool:
        return bodies <= set(await self._bodies(client, topic))

    async def _bodies(self, client: Peer, topic: str) -> list[bytes]:
        bodies: list[bytes] = []
        while records := await client.stored(topic, 0, len(bodies)):
            bodies += [record.body for record in records]
        return bodies


def fate_of(body: bytes) -> int:
    """Return which end a transaction has; any message that is none has the other one."""
    return ROLLBACK if body.endswith(b"roll back") else COMMIT


def position_of(sent: Command) -> int:
    """Return where a message is in the log."""
    return parse_offset_message_id((sent.ext or {})["msgId"]).position
