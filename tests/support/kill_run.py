"""Kill a real broker again and again, and see after each restart that it kept its promises.

    run = KillRun(folder, seed=7, flush=FlushDiskType.SYNC_FLUSH)
    run.kill_often(50)

A run with the same seed sends the same requests and draws the same moments; what the machine does in between
is its own affair.
"""

import json
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random

from forked_command import start_pyromq
from kill_audit import Audit
from kill_ledger import Ledger
from kill_load import Load

from pyromq.config.choices import FlushDiskType
from pyromq.errors import StoreError
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.offset_bodies import decode_delay_offsets, decode_group_offsets
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.java_json import loads

START_S_MAX = 60.0
LOAD_S_MAX = 0.5
#: How many times the kills that were asked for may be needed.
MORE_MAX = 20
#: Files that roll several times in each round, checkpoints and tables that are written all the time, and
#: answers large enough to read everything back quickly.
SETTINGS = {
    "maxMessageSize": 65536,
    "mappedFileSizeCommitLog": 512 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 300,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 3000,
    "syncFlushTimeout": 60_000,
    # A loaded machine makes the broker late, and then it refuses sends: true, and not what is asked here.
    "waitTimeMillsInSendQueue": 60_000,
    "osPageCacheBusyTimeOutMills": 60_000,
    "flushIntervalConsumeQueue": 20,
    "flushConsumeQueueThoroughInterval": 100,
    "flushConsumerOffsetInterval": 40,
    "flushDelayOffsetInterval": 50,
    "maxTransferCountOnMessageInMemory": 4000,
    "maxTransferBytesOnMessageInMemory": 8 << 20,
}
#: Every file but the last may go at once, at any hour.
ALL_DAY: dict[str, object] = {
    "fileReservedTime": 0,
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "cleanResourceInterval": 50,
}
#: All that has no place in the log of a broker that is only ever killed.
ALARMS = ("Traceback", "ERROR", "CRITICAL", "damaged")
TABLES = {
    "topics.json": decode_topic_table,
    "subscriptionGroup.json": decode_group_table,
    "consumerOffset.json": decode_group_offsets,
    "delayOffset.json": decode_delay_offsets,
    "kvConfig.json": loads,
}


@dataclass
class KillRun:
    """A broker's data, and what it promised so far. `command` is `broker`, or `up` for a name server too."""

    folder: Path
    seed: int
    flush: FlushDiskType
    command: str = "broker"
    settings: dict[str, object] = field(default_factory=dict)
    kills: int = 0
    kills_while_starting: int = 0
    kills_while_stopping: int = 0
    stops: int = 0

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.ledger = Ledger(Random(self.seed), has_retention="fileReservedTime" in self.settings)
        self._load = Load(self.ledger, self.chance)
        self._process: ForkServerProcess | None = None
        self._looked_at = 0.0
        self.folder.mkdir()

    def kill_often(
        self, kills: int, *, full_every: int = 10, until: Callable[[], bool] = lambda: True
    ) -> None:
        """Kill the broker so many times under load, and some times more while it starts or stops.

        What a slow machine has not brought about by then is waited for by more kills.
        """
        try:
            self._start_and_check(is_full=False)
            while self.kills < kills or not until():
                assert self.kills < kills * MORE_MAX, f"it did not come to that: {self.summary}"
                self._load_until(self._kill)
                self.kills += 1
                if self.kills % 5 == 0:
                    self._kill_while_starting()
                if self.kills % 10 == 0:
                    self._verify()
                    self._start_and_check(is_full=False)
                    self._load_until(self._kill_while_stopping)
                self._start_and_check(is_full=self.kills % full_every == 0 or self.kills >= kills)
            self._load_until(self._stop)
            self._verify()
            self._start_and_check(is_full=True)
        finally:
            self.close()

    def close(self) -> None:
        """End the broker that runs."""
        if self._process is not None and self._process.is_alive():
            self._kill()

    def _start_and_check(self, *, is_full: bool) -> None:
        self._start()
        hello = self._ready()
        self._hello = hello
        audit = Audit(self.ledger, self.chance, broker=hello["broker"], name_server=hello["namesrv"])
        audit.run(is_full=is_full)
        self._check()

    def _load_until(self, end: Callable[[], None]) -> None:
        self._load.run(
            self._hello["broker"],
            self.chance.uniform(0.01, LOAD_S_MAX),
            name_server=self._hello["namesrv"],
            look=self._look_at_tables,
            kill=end,
        )
        self._look_at_tables(is_forced=True)
        self._check()

    def _kill_while_starting(self) -> None:
        """Kill the broker while it recovers: it locks its store first."""
        lock = self._store / "lock"
        locked_at = lock.stat().st_mtime_ns
        self._start()
        eventually(lambda: lock.stat().st_mtime_ns != locked_at, START_S_MAX, what="the store is locked")
        assert self._process is not None
        self._process.join(self.chance.uniform(0, 0.1))
        self._kill()
        self.kills_while_starting += 1

    def _start(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        settings = SETTINGS | {"flushDiskType": self.flush.value} | self.settings
        ports = ["--port", "0"] if self.command == "broker" else ["--namesrv-port", "0", "--broker-port", "0"]
        self._log = self.folder / "log"
        # It is looked at before the process has made its own.
        self._log.write_bytes(b"")
        places = ["--data", str(self.folder / "data"), "--ready-file", str(ready)]
        self._process = start_pyromq([self.command, *ports, *places, *_as_options(settings)], self._log)

    @property
    def _store(self) -> Path:
        return self.folder / "data" / "broker-a"

    def _ready(self) -> dict[str, str]:
        ready = self.folder / "ready.json"

        def hello() -> dict[str, str] | None:
            assert self._process is not None
            assert self._process.is_alive(), f"seed {self.seed}: {self._log.read_text()}"
            return json.loads(ready.read_text()) if ready.exists() and ready.stat().st_size else None

        return eventually(hello, START_S_MAX, what="the broker is ready")

    def _kill(self) -> None:
        process = self._process
        assert process is not None
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, self._log.read_text()

    def _stop(self) -> None:
        """Stop the broker in order, with requests under way."""
        process = self._process
        assert process is not None
        process.terminate()
        process.join(START_S_MAX)
        assert process.exitcode == 0, self._log.read_text()
        assert not (self._store / "abort").exists()
        self.stops += 1

    def _kill_while_stopping(self) -> None:
        """Ask the broker to stop, and kill it before it has, or just after."""
        process = self._process
        assert process is not None
        process.terminate()
        process.join(self.chance.uniform(0, 0.1))
        process.kill()
        process.join()
        self.kills_while_stopping += 1

    def _verify(self) -> None:
        """Let `pyromq store verify` have its say on the files as they are; being killed is no fault."""
        log = self.folder / "verify.log"
        process = start_pyromq(
            ["store", "verify", str(self._store), "--jobs", "1", *_as_options(SETTINGS)], log
        )
        process.join()
        assert process.exitcode == 0, f"seed {self.seed}: {log.read_text()}"

    def _look_at_tables(self, *, is_forced: bool = False) -> None:
        """Read the tables as they are on disk: whole at every moment, and progress only grows in them."""
        if not is_forced and time.monotonic() - self._looked_at < 0.03:
            return
        self._looked_at = time.monotonic()
        for name, decode in TABLES.items():
            folder = self.folder / "data" / "namesrv" if name == "kvConfig.json" else self._store / "config"
            data = _read_either(folder / name)
            if data is None:
                continue
            try:
                table = decode(data)
            except (ValueError, StoreError) as error:
                self.ledger.complain(f"{name} does not read: {error}: {data[:200]!r}")
                continue
            if name == "consumerOffset.json":
                self.ledger.check_progress(table, where=name)

    def _check(self) -> None:
        text = self._log.read_text()
        alarms = [line for line in text.splitlines() if any(alarm in line for alarm in ALARMS)]
        assert not alarms, f"seed {self.seed}, kill {self.kills}: {text}"
        complaints = self.ledger.complaints
        assert not complaints, f"seed {self.seed}, kill {self.kills}: {len(complaints)}: {complaints[:5]}"

    @property
    def summary(self) -> str:
        """The run in a line."""
        return (
            f"seed {self.seed}, {self.flush}: {self.kills} kills under load, {self.kills_while_starting} "
            f"while starting, {self.kills_while_stopping} while stopping; "
            f"{self.ledger.acknowledged_count} messages acknowledged, "
            f"{len(self.ledger.seen_numbers)} there, {len(self.ledger.complaints)} promises broken"
        )


def _as_options(settings: Mapping[str, object]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def _read_either(path: Path) -> bytes | None:
    # A reader that comes between the two renames of a replacement finds the twin.
    for candidate in (path, path.with_name(path.name + ".bak"), path):
        with suppress(FileNotFoundError):
            return candidate.read_bytes()
    return None
