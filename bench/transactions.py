"""Transactions per second of our broker beside Apache 4.9's, in one run.

    .venv/bin/python bench/transactions.py            # 5 rounds, about 2 minutes; writes bench/results
    .venv/bin/python bench/transactions.py --quick    # 1 round; only prints

A transaction is a half message (100 bytes) that is acknowledged and then committed; the commit is waited for
as well, so that it counts when it is done. (Clients tell it oneway; both brokers do the same work then.) One
generator, the same for both: 8 connections, on each of which 16 transactions are under way. While one broker
is measured the other stands still. The brokers take turns, round after round; what is compared is the median
of the rounds' ratios. Seconds of processor time are those of the broker's process, and say most.

Afterwards the topic is asked how many messages it has: each transaction has made exactly one.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch and start Apache's servers

from beside.measuring import busy_s, own_s, wait_for_quiet  # noqa: E402
from beside.results import machine, where  # noqa: E402
from beside.servers import APACHE_4, ASYNC, PYROMQ, TITLES, Broker, Stage, awake, first_send  # noqa: E402

from pyromq.bench.exchanges import creation, exchange  # noqa: E402
from pyromq.bench.process import usage_of  # noqa: E402
from pyromq.codes import RequestCode, ResponseCode, SysFlag  # noqa: E402
from pyromq.net.address import split_address  # noqa: E402
from pyromq.wire import properties as names  # noqa: E402
from pyromq.wire.command import Command, CommandReader, encode  # noqa: E402
from pyromq.wire.header import write_header  # noqa: E402
from pyromq.wire.headers.offset_headers import GetMaxOffset  # noqa: E402
from pyromq.wire.message_id import parse_offset_message_id  # noqa: E402

RESULT = ROOT / "bench" / "results" / "transactions.json"
KINDS = (APACHE_4, PYROMQ)
TOPIC, GROUP, QUEUES = "transactions", "payers", 8
CONNECTIONS, UNDER_WAY, BODY = 8, 16, b"x" * 100
END_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Pace:
    """How long it takes."""

    rounds: int
    run_s: float
    jvm_warm_up_s: float
    quiet_wait_s: float


@dataclass
class Tally:
    """What the generator saw."""

    begun: int = 0
    refused: int = 0
    """Requests that the broker was too busy for (Apache's flow control); they are made again."""
    done_at: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    is_over: bool = False


@dataclass(frozen=True)
class Figures:
    """One broker in one round."""

    kind: str
    per_second: float
    per_cpu_second: float
    p50_ms: float
    p99_ms: float
    refused: int
    others_cores: float
    """What other processes used of the machine meanwhile."""


class Connection(asyncio.Protocol):
    """One connection on which a number of transactions is always under way."""

    def __init__(self, number: int, tally: Tally) -> None:
        self._number = number
        self._tally = tally
        self._reader = CommandReader()
        self._opaque = 0
        #: By opaque: when the transaction began, and how its end is told once it is.
        self._waiting: dict[int, tuple[float, dict[str, str] | None]] = {}
        self.is_idle = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        for _ in range(UNDER_WAY):
            self._begin()

    def data_received(self, data: bytes) -> None:
        """Take answers: a half that is stored is committed, and after its end the next one begins."""
        self._reader.feed(data)
        while (answer := self._reader.next_command()) is not None:
            began_at, end = self._waiting.pop(answer.opaque)
            if answer.code == ResponseCode.SYSTEM_BUSY:
                self._tally.refused += 1
                if end is None:
                    self._begin()
                else:
                    self._send(RequestCode.END_TRANSACTION, end, began_at, end)
            elif answer.code != ResponseCode.SUCCESS:
                self.is_idle.set_exception(SystemExit(f"refused: {answer.code} {answer.remark}"))
            elif end is None:
                self._tally.begun += 1
                end = _end_of(answer.ext or {})
                self._send(RequestCode.END_TRANSACTION, end, began_at, end)
            else:
                self._finish(began_at)

    def _finish(self, began_at: float) -> None:
        now = time.perf_counter()
        self._tally.done_at.append(now)
        self._tally.took_s.append(now - began_at)
        if not self._tally.is_over:
            self._begin()
        elif not self._waiting:
            self.is_idle.set_result(None)

    def _begin(self) -> None:
        self._opaque += 1
        properties = {
            names.UNIQ_KEY: f"7F000001{self._number:08X}{time.time_ns():016X}",
            names.TRANSACTION_PREPARED: "true",
            names.PRODUCER_GROUP: GROUP,
            names.WAIT: "true",
        }
        ext = {
            "a": GROUP,
            "b": TOPIC,
            "c": "TBW102",
            "d": "4",
            "e": str(self._opaque % QUEUES),
            "f": str(int(SysFlag.TRANSACTION_PREPARED)),
            "g": str(time.time_ns() // 1_000_000),
            "h": "0",
            "i": names.encode(properties),
            "j": "0",
            "k": "false",
            "m": "false",
        }
        self._send(RequestCode.SEND_MESSAGE_V2, ext, time.perf_counter(), None, BODY)

    def _send(
        self, code: int, ext: dict[str, str], began_at: float, end: dict[str, str] | None, body: bytes = b""
    ) -> None:
        self._opaque += 1
        self._waiting[self._opaque] = began_at, end
        self._transport.write(encode(Command(code, opaque=self._opaque, ext=ext, body=body)))


def _end_of(stored: dict[str, str]) -> dict[str, str]:
    """Return the fields that commit a half message that was stored."""
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": stored["queueOffset"],
        "commitLogOffset": str(parse_offset_message_id(stored["msgId"]).position),
        "commitOrRollback": str(int(SysFlag.TRANSACTION_COMMIT)),
        "fromTransactionCheck": "false",
        "msgId": stored["msgId"],
    }


async def load(broker: Broker, seconds: float) -> Tally:
    """Keep transactions under way for some time, and let the last of them end."""
    tally, loop = Tally(), asyncio.get_running_loop()
    made = [
        await loop.create_connection(
            lambda number=number: Connection(number, tally),  # type: ignore[misc]
            *split_address(broker.address),
        )
        for number in range(CONNECTIONS)
    ]
    await asyncio.sleep(seconds)
    tally.is_over = True
    await asyncio.wait_for(asyncio.gather(*(each.is_idle for _, each in made)), END_TIMEOUT_S)
    for transport, _ in made:
        transport.close()
    return tally


def visible(broker: Broker) -> int:
    """Return how many messages consumers can see of the topic."""
    asked = [GetMaxOffset(topic=TOPIC, queue_id=number) for number in range(QUEUES)]
    with socket.create_connection(split_address(broker.address), END_TIMEOUT_S) as link:
        ends = exchange(link, [Command(RequestCode.GET_MAX_OFFSET, ext=write_header(one)) for one in asked])
    return sum(int((end.ext or {})["offset"]) for end in ends)


def one_round(broker: Broker, seconds: float) -> Figures:
    """Measure a broker, and see that each of its transactions has made a message."""
    before, cpu_s, busy, ours = visible(broker), usage_of(broker.pid).cpu_s, busy_s(), own_s()
    began_at = time.perf_counter()
    tally = asyncio.run(load(broker, seconds))
    took_s = time.perf_counter() - began_at
    cpu_s = usage_of(broker.pid).cpu_s - cpu_s
    others = (busy_s() - busy) - cpu_s - (own_s() - ours)
    seen = visible(broker) - before
    if seen != tally.begun:
        raise SystemExit(f"{broker.kind}: {tally.begun} transactions made {seen} messages")
    measured = sum(at <= began_at + seconds for at in tally.done_at)
    cuts = quantiles(tally.took_s, n=100)
    return Figures(
        broker.kind,
        per_second=measured / seconds,
        per_cpu_second=tally.begun / cpu_s,
        p50_ms=cuts[49] * 1e3,
        p99_ms=cuts[98] * 1e3,
        refused=tally.refused,
        others_cores=round(max(others, 0.0) / took_s, 2),
    )


def measure(pace: Pace) -> list[Figures]:
    """Start the brokers, warm them, and let them take turns."""
    found = []
    with tempfile.TemporaryDirectory(prefix="transactions-") as folder, ExitStack() as closing:
        stage = Stage(Path(folder), closing)
        brokers = {kind: stage.broker(kind, ASYNC) for kind in KINDS}
        for broker in brokers.values():
            closing.callback(broker.stop)
            first_send(broker)
            with socket.create_connection(split_address(broker.address), END_TIMEOUT_S) as link:
                exchange(link, [creation(TOPIC, QUEUES)])
        for kind, broker in brokers.items():
            with awake(broker, brokers.values()):
                asyncio.run(load(broker, 1.0 if kind == PYROMQ else pace.jvm_warm_up_s))
        for number in range(pace.rounds):
            for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                with awake(brokers[kind], brokers.values()):
                    wait_for_quiet(pace.quiet_wait_s)
                    figures = one_round(brokers[kind], pace.run_s)
                found.append(figures)
                print(
                    f"  {number + 1}/{pace.rounds} {TITLES[kind]:10} {figures.per_second:9,.0f}/s "
                    f"{figures.per_cpu_second:9,.0f} a CPU-second, p50 {figures.p50_ms:.2f} ms, "
                    f"p99 {figures.p99_ms:.2f} ms, {figures.refused} refused "
                    f"(others {figures.others_cores:.2f} cores)",
                    flush=True,
                )
    return found


def ratios(found: list[Figures], figure: str) -> list[float]:
    """Return for each round how many times more than Apache's ours is."""
    by_kind = {kind: [getattr(one, figure) for one in found if one.kind == kind] for kind in KINDS}
    return [ours / theirs for theirs, ours in zip(by_kind[APACHE_4], by_kind[PYROMQ], strict=True)]


def summary(found: list[Figures]) -> dict[str, dict[str, float]]:
    """Return the medians of each figure, and of its ratios."""
    table: dict[str, dict[str, float]] = {}
    for figure in ("per_second", "per_cpu_second", "p50_ms", "p99_ms"):
        middles = {kind: median(getattr(one, figure) for one in found if one.kind == kind) for kind in KINDS}
        table[figure] = middles | {"ratio": median(ratios(found, figure))}
    return table


def main() -> None:
    """Measure, print, and write it down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round; nothing is written")
    parser.add_argument("--json", type=Path, default=None, help="where to write it (default bench/results)")
    options = parser.parse_args()
    pace = Pace(1, 2.0, 5.0, 0.5) if options.quick else Pace(5, 4.0, 20.0, 4.0)
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    found = measure(pace)
    table, seen = summary(found), machine()
    print(f"\n{where(seen, at)}")
    for figure, values in table.items():
        print(
            f"{figure:16} Apache 4.9 {values[APACHE_4]:12,.2f}   PyroMQ {values[PYROMQ]:12,.2f}   "
            f"PyroMQ / Apache {values['ratio']:.2f}"
        )
    path = options.json or (None if options.quick else RESULT)
    if path is not None:
        rounds = [asdict(one) for one in found]
        record = {"at": at, "machine": seen, "medians": table, "rounds": rounds}
        path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
