"""A store with timed messages and no broker around it: on a real folder, and a clock of the test's choice."""

import asyncio
from collections import Counter
from pathlib import Path

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.timers.timed import timer_diversions
from pyromq.broker.kinds.timers.timers import Timers
from pyromq.broker.topics.intake import Intake
from pyromq.clock import Clock
from pyromq.config.settings import StoreSettings
from pyromq.store.files import Files
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.system_names import WHEEL_TIMER
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)
LOG_FILE_BYTES = 4096
TOPIC = "orders"


class TimerStage:
    """Timed messages of queue 0 of «orders»."""

    def __init__(self, folder: Path, clock: Clock, *, files: Files | None = None, **settings: object) -> None:
        self.folder = folder
        self.clock = clock
        small: dict[str, object] = {
            "store_path_root_dir": str(folder),
            "mapped_file_size_commit_log": LOG_FILE_BYTES,
            "mapped_file_size_consume_queue": 20 * 50,
            "max_hash_slot_num": 100,
            "max_index_num": 1000,
            "message_index_enable": False,
        }
        self.settings = StoreSettings(**small | settings)  # type: ignore[arg-type]
        self.store = MessageStore(self.settings, clock=clock, files=files)
        self.timers = Timers(self.store, clock, path=folder / "timers" / "waiting.db")
        self._intake = Intake(
            self.store,
            message_bytes_max=self.settings.max_message_size,
            diversions=timer_diversions(self.settings, clock.now_ms),
        )

    async def start(self) -> None:
        """Open the store and begin to deliver."""
        self.store.follow_topics({WHEEL_TIMER: self.timers})
        self.store.open()
        self.durability = Durability(self.store, self.settings, self.clock)
        self.timers.start(self.durability)
        # The table has caught up with the log when this is answered.
        await self.timers.count()

    async def close(self) -> None:
        """Stop in order."""
        self.timers.stop()
        await self.timers.close()
        self.durability.close()
        self.store.close()

    def abandon(self) -> None:
        """Let go of the store without writing anything, as a dead process does."""
        self.timers.stop()
        self.durability.close()

    def send(self, body: str, delay_ms: int = 0, *, filling: int = 0) -> Placed:
        """Store a message; its unique id is its body."""
        properties = {names.UNIQ_KEY: body, names.KEYS: "x" * filling} if filling else {names.UNIQ_KEY: body}
        if delay_ms:
            properties[names.TIMER_DELAY_MS] = str(delay_ms)
        draft = Draft(
            TOPIC, 0, body.encode(), names.encode(properties), 0, 0, self.clock.now_ms(), HOST, HOST
        )
        return self._intake.put(draft, properties)

    async def write(self) -> None:
        """Have the table written, and wait for it; what is delivered meanwhile is written too."""

        def is_written() -> bool:
            self.timers.nudge()
            return not self.pending

        await aeventually(is_written, what="the table is written")

    @property
    def pending(self) -> int:
        """How many changes the table does not have."""
        return self.timers.pending

    async def await_delivered(self, count: int) -> Counter[str]:
        """Return what was delivered, once so many were."""
        await aeventually(lambda: self.store.max_offset(TOPIC, 0) >= count, what=f"{count} delivered")
        await asyncio.sleep(0)
        return self.delivered()

    def delivered(self) -> Counter[str]:
        """Return how often each message is in its own topic."""
        bodies: Counter[str] = Counter()
        offset = self.store.min_offset(TOPIC, 0)
        while entries := self.store.entries(TOPIC, 0, offset, 50):
            offset += len(entries)
            records = [self.store.record_at(entry.position) for entry in entries]
            bodies.update(record.body.decode() for record in records if record is not None)
        return bodies
