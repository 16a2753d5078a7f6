"""A store's life on a disk that is too small for it; see `tests/crash/test_full_disk.py`."""

import random
from collections import Counter

from store_story import Promise, Story, Swept, Tried, examine, queues, read_all, tears_at

from pyromq.errors import DiskFull, SyncFailed
from pyromq.testing.disk import Mark, SimulatedDisk, cuts_of

CAPACITY_BYTES = 44 * 4096


class CrampedStory(Story):
    """A life in which writes fail for want of room; retention makes some, and the broker goes on."""

    def __init__(self, seed: int, disk: SimulatedDisk | None = None, promise: Promise | None = None) -> None:
        self.refusals: Counter[str] = Counter()
        self.taken_after_refusal = 0
        #: How often somebody looks how full the disk is; when that is rare, it fills to the last byte.
        self.checks = random.Random(seed).choice((0.02, 0.3))
        super().__init__(seed, disk or SimulatedDisk(capacity_bytes=CAPACITY_BYTES), promise)

    def run(self, steps: int) -> None:
        """Do that many things, most of them sends."""
        weights = {
            self.put: 60,
            self.put_batch: 15,
            self.sync: 10,
            self.sync_queues: 5,
            self.settle: 3,
            self.sweep: 4,
            self.save_table: 2,
            self.stop_and_start: 2,
            self.kill_and_start: 2,
        }
        for step in self.chance.choices(list(weights), list(weights.values()), k=steps):
            self.steps[step.__name__] += 1
            try:
                if self.chance.random() < self.checks:
                    self.store.check_disk()
                step()
            except DiskFull as error:
                self.refusals["by the threshold" if "90 %" in str(error) else "by the system"] += 1
                # Whatever was refused, all that was taken can be read.
                for queue in queues():
                    read_all(self.store, *queue)
            except SyncFailed as error:
                raise AssertionError("a full disk must not poison the store") from error
            self.clock.advance(self.chance.choice((1, 20, 1500)))

    def put(self) -> None:
        """Store one message."""
        super().put()
        self.taken_after_refusal += bool(self.refusals)

    def sweep(self) -> None:
        """Let the oldest files go if the disk is too full."""
        swept = self.store.sweep()
        self.disk.mark(Swept(self.store.min_position))
        swept.remove()
        self.store.check_disk()

    def stop_and_start(self) -> None:
        """Stop, as cleanly as the disk allows, and start again."""
        self.store.close()
        self.open()
        assert self.store.max_position >= self.promise.end
        self.mark_safe(self.store.flushed_position, is_restart=True)


def try_all_cuts(seed: int, *, steps: int, each_max: int, random_cuts: int) -> tuple[Tried, CrampedStory]:
    """Let a store live on a small disk, and examine it after power cuts at many moments of that life."""
    story = CrampedStory(seed)
    chance = random.Random(seed)
    try:
        story.run(steps)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    # Whatever happened: with room enough it goes on, without a restart.
    story.disk.capacity_bytes *= 2
    story.store.check_disk()
    story.put()
    story.sync_queues()
    states = 0
    cuts = cuts_of(story.disk.journal, chance, each_max=each_max, random_cuts=random_cuts, tears_at=tears_at)
    for cut in cuts:
        if chance.random() < 0.2:
            states += 1
            try:
                examine(SimulatedDisk(cut.image), story.promise.after(cut.marks), chance)
            except Exception as error:
                error.add_note(f"seed {seed}, power cut behind operation {cut.at}: {cut.story}")
                raise
    marks = [operation.value for operation in story.disk.journal if isinstance(operation, Mark)]
    examine(SimulatedDisk(story.disk.image()), story.promise.after(marks), chance)
    return Tried(states + 1, len(story.disk.journal), len(story.promise.sent)), story
