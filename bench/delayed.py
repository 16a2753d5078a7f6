"""Messages with any delay while five million of them wait: how fast they come and go, and how punctually.

    .venv/bin/python bench/delayed.py                    # 5,000,000 waiting, about 4 minutes
    .venv/bin/python bench/delayed.py --quick            # 50,000, some seconds of each

**How it is filled.** The first messages are put into a store by this process, as a broker stores what it is
sent: the same records with the same properties, by `MessageStore.put_batch`, due from one hour to 30 days
from now in no order; only the index of keys is left out, which takes as long as all the rest. A broker is
then started on that store and takes them into its table; how long that takes is printed. All else goes
through the wire, on top of them: the accepted ones wait, too.

*accepted*: 128 B messages with TIMER_DELAY_MS of a day, 8 connections with 16 sends under way on each.
*delivered*: so many due at one moment, from that moment until the last is in its topic.
*error*: messages at a rate, each due 1.5 s later; when each was stored in its topic against when it was due,
by the broker's clock in milliseconds, and when it came to a consumer.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which the servers beside come from

from beside.results import machine  # noqa: E402

from pyromq import Admin, ConsumeFrom, PullConsumer, RequestTimeout, SystemBusy  # noqa: E402
from pyromq.bench.bench_run import run  # noqa: E402
from pyromq.bench.process import usage_of  # noqa: E402
from pyromq.bench.workload import BenchReport, LoadKind, Workload  # noqa: E402
from pyromq.clock import SystemClock  # noqa: E402
from pyromq.config.settings import StoreSettings  # noqa: E402
from pyromq.model import MessageQueue  # noqa: E402
from pyromq.store.store import Draft, MessageStore  # noqa: E402
from pyromq.wire import properties as names  # noqa: E402
from pyromq.wire.record import encode_host  # noqa: E402

RESULTS = ROOT / "bench" / "results" / "delayed.json"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HOST = encode_host("127.0.0.1", 10911)
BODY = b"x" * 128
BATCH = 256
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SPREAD_MS = 30 * DAY_MS
DELAY_MS = 1_500
READY_S = 300.0
#: Above this the figures are those of a machine with other work.
QUIET_LOAD = 0.7


@dataclass(frozen=True)
class Pace:
    """How many wait, and how long is measured."""

    waiting: int
    accept_s: float
    burst: int
    rate: float
    error_s: float


WHOLE = Pace(waiting=5_000_000, accept_s=15, burst=100_000, rate=1_000, error_s=15)
QUICK = Pace(waiting=50_000, accept_s=3, burst=5_000, rate=500, error_s=3)


@dataclass
class Server:
    """A running `pyromq up`."""

    process: "subprocess.Popen[bytes]"
    name_server: str
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def memory_mib(self) -> float:
        """Resident memory without the mapped files."""
        return round(usage_of(self.process.pid).private_bytes / 2**20, 1)


def say(what: str, figure: str) -> None:
    """Print one line of the table."""
    print(f"{what:66s} {figure:>20s}", flush=True)


def batches(count: int, now_ms: int) -> Iterator[list[Draft]]:
    """Yield messages as a broker stores those that wait."""
    due = random.Random(6)
    for first in range(0, count, BATCH):
        drafts = []
        for number in range(first, min(first + BATCH, count)):
            at = now_ms + HOUR_MS + int(due.random() * SPREAD_MS)
            text = (
                f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02CLUSTER\x01DefaultCluster\x02"
                f"TIMER_DELIVER_MS\x01{at}\x02TIMER_OUT_MS\x01{at}\x02"
                f"REAL_TOPIC\x01filled\x02REAL_QID\x01{number % 4}"
            )
            drafts.append(Draft(TIMER_TOPIC, 0, BODY, text, 0, 0, now_ms, HOST, HOST))
        yield drafts


def fill(folder: Path, count: int) -> float:
    """Put waiting messages into a store; return the seconds it took."""
    began = time.perf_counter()
    settings = StoreSettings(store_path_root_dir=str(folder), message_index_enable=False)
    store = MessageStore(settings, clock=SystemClock())
    store.open()
    for drafts in batches(count, int(time.time() * 1_000)):
        store.put_batch(drafts)
        sync = store.queue_sync_if_due()
        if sync is not None:
            sync.run()
    store.close()
    return time.perf_counter() - began


@contextmanager
def serving(data: Path, folder: Path) -> Iterator[Server]:
    """Run the servers on a data folder."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pyromq", "up", "--data", str(data), "--ready-file", str(ready)]
    output = folder / "servers.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--namesrv-port", "0", "--broker-port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + READY_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the servers did not start:\n{output.read_text()[-3000:]}")
            time.sleep(0.01)
        yield Server(process, json.loads(ready.read_text())["namesrv"])
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def await_waiting(server: Server, count: int) -> None:
    """Wait until the broker knows so many messages that wait."""
    deadline = time.monotonic() + READY_S
    with Admin(server.name_server) as admin:
        while time.monotonic() < deadline:
            # While it catches up, a broker does not say.
            with suppress(SystemBusy, RequestTimeout):
                if sum(admin.count_waiting().values()) >= count:
                    return
            time.sleep(0.2)
    raise SystemExit(f"after {READY_S:g} s there are not {count:,} messages that wait")


def timed(kind: LoadKind, topic: str, properties: dict[str, str], **more: Any) -> Workload:
    """Return a workload of messages with properties."""
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
    return Workload(kind=kind, topic=topic, size=128, properties=text, **more)


def accept(server: Server, pace: Pace) -> BenchReport:
    """Send messages that wait for a day, as fast as the broker takes them."""
    work = timed(
        LoadKind.PRODUCE,
        "accepted",
        {names.TIMER_DELAY_MS: str(DAY_MS)},
        connections=8,
        under_way=16,
        warm_up_s=1,
        duration_s=pace.accept_s,
    )
    return run(work, name_server=server.name_server, server_pid=server.process.pid)


def burst(server: Server, count: int, lead_s: float) -> float:
    """Send messages that are all due at one moment; return the seconds from then to the last delivery."""
    due_ms = int((time.time() + lead_s) * 1_000)
    work = timed(
        LoadKind.PRODUCE,
        "burst",
        {names.TIMER_DELIVER_MS: str(due_ms)},
        connections=8,
        under_way=16,
        count=count,
    )
    report = run(work, name_server=server.name_server)
    late_ms = int(time.time() * 1_000) - due_ms
    if late_ms > 0 or report.tally.messages_in_all < count:
        raise SystemExit(f"the burst was not sent in {lead_s:g} s: {report.tally}")
    with Admin(server.name_server) as admin:
        queues = [
            MessageQueue("burst", part.broker_name, number)
            for part in admin.route("burst").queue_datas
            for number in range(part.read_queue_nums)
        ]
        while time.time() * 1_000 < due_ms:
            time.sleep(0.01)
        deadline = time.monotonic() + READY_S
        while sum(admin.max_offset(queue) for queue in queues) < count:
            if time.monotonic() > deadline:
                raise SystemExit("the burst does not end")
            time.sleep(0.02)
    return time.time() - due_ms / 1_000


def punctuality(server: Server, pace: Pace) -> tuple[BenchReport, list[int]]:
    """Send messages at a rate; return when they came, and how many ms after its time each was stored."""
    work = timed(
        LoadKind.DELAY,
        "error",
        {names.TIMER_DELAY_MS: str(DELAY_MS)},
        connections=4,
        under_way=64,
        rate=pace.rate,
        warm_up_s=1,
        duration_s=pace.error_s,
        delay_s=DELAY_MS / 1e3,
    )
    report = run(work, name_server=server.name_server, server_pid=server.process.pid)
    errors = []
    with PullConsumer("bench", server.name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        for message in consumer.messages("error", idle_ms=2_000):
            errors.append(message.stored_at_ms - int(message.properties[names.TIMER_OUT_MS]))
    return report, sorted(errors)


def percentile(values: list[int], share: float) -> int:
    """Return the value that this share of the values does not exceed."""
    return values[min(len(values) - 1, int(len(values) * share))]


def measure(pace: Pace, folder: Path) -> dict[str, Any]:
    """Print the figures, and return them."""
    data = folder / "data"
    figures: dict[str, Any] = {"waiting": pace.waiting, "load_before": round(os.getloadavg()[0], 1)}
    if figures["load_before"] > QUIET_LOAD:
        say("!! other work runs on this machine: load", f"{figures['load_before']:.1f}")
    figures["fill_s"] = round(fill(data / "broker-a", pace.waiting), 1)
    say(f"{pace.waiting:,} messages put into the store by this process", f"{figures['fill_s']:.1f} s")
    began = time.monotonic()
    with serving(data, folder) as server:
        figures["start_s"] = round(time.monotonic() - began, 2)
        say("start of the broker", f"{figures['start_s']:.2f} s")
        await_waiting(server, pace.waiting)
        figures["taken_in_s"] = round(time.monotonic() - began, 1)
        say("from the start until the broker has all in its table", f"{figures['taken_in_s']:.1f} s")
        time.sleep(2)
        figures["memory_mib"] = server.memory_mib
        say("resident memory of the broker with them waiting", f"{figures['memory_mib']:.0f} MiB")
        figures |= under_load(server, pace)
    figures["table_mib"] = round(
        sum(path.stat().st_blocks * 512 for path in (data / "broker-a" / "timers").rglob("*")) / 2**20, 1
    )
    say("the table on disk", f"{figures['table_mib']:.0f} MiB")
    began = time.monotonic()
    with serving(data, folder) as server:
        await_waiting(server, pace.waiting)
        figures["restart_s"] = round(time.monotonic() - began, 2)
    say("a start after that, until all are known", f"{figures['restart_s']:.2f} s")
    return figures


def under_load(server: Server, pace: Pace) -> dict[str, Any]:
    """Print and return what comes and goes while they wait."""
    report = accept(server, pace)
    rate = report.rate
    assert report.server is not None
    found: dict[str, Any] = {
        "accepted_per_s": round(rate),
        "accepted_p99_ms": round(report.tally.requests.percentile(99.0) / 1e3, 2),
        "accepted_per_cpu_s": round(report.per_cpu_second or 0),
    }
    say("accepted", f"{rate:,.0f}/s")
    say("  for each second of the broker's processor time", f"{found['accepted_per_cpu_s']:,}")
    say("  a send's p99", f"{found['accepted_p99_ms']:.2f} ms")
    lead_s = 5 + 2 * pace.burst / max(rate, 1)
    seconds = burst(server, pace.burst, lead_s)
    found["burst"], found["delivered_per_s"] = pace.burst, round(pace.burst / seconds)
    say(f"delivered, {pace.burst:,} due at one moment", f"{found['delivered_per_s']:,}/s")
    report, errors = punctuality(server, pace)
    if not errors:
        raise SystemExit("no message arrived")
    found["error_rate_per_s"] = pace.rate
    found["error_ms"] = {
        "p50": percentile(errors, 0.5),
        "p99": percentile(errors, 0.99),
        "max": errors[-1],
        "min": errors[0],
    }
    found["arrival_ms"] = {
        f"p{share:g}": round(report.tally.deliveries.percentile(share) / 1e3, 2) for share in (50.0, 99.0)
    }
    error, arrival = found["error_ms"], found["arrival_ms"]
    at = f"at {pace.rate:,.0f}/s"
    say(f"stored after it was due, {at}: p50, p99, max", "{p50}, {p99}, {max} ms".format_map(error))
    say(f"at a consumer after it was due, {at}: p50, p99", "{p50}, {p99} ms".format_map(arrival))
    found["memory_after_mib"] = server.memory_mib
    say("resident memory of the broker after that", f"{found['memory_after_mib']:.0f} MiB")
    return found


def main() -> None:
    """Fill, start, measure, and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="50,000 waiting, nothing is written")
    parser.add_argument("--waiting", type=int, help="how many wait")
    parser.add_argument("--folder", help="where to make the store (default: the folder for temporary files)")
    arguments = parser.parse_args()
    pace = QUICK if arguments.quick else WHOLE
    if arguments.waiting:
        pace = Pace(**(vars(pace) | {"waiting": arguments.waiting}))
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder)))
        figures = measure(pace, folder)
    if not arguments.quick:
        told = {"machine": machine(), "at": time.strftime("%F %H:%M UTC", time.gmtime()), **figures}
        RESULTS.write_text(json.dumps(told, indent=2) + "\n")
        print(f"written to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
