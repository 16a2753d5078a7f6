"""A disk for tests: it forgets what was not synced, tears writes, fills up, fails, and flips bits.

    disk = SimulatedDisk()
    store = MessageStore(settings, clock=clock, files=disk)
    store.open()
    store.put(draft)
    store.sync()
    again = MessageStore(settings, clock=clock, files=disk.after_power_cut(random.Random(seed)))
    again.open()                # finds the message, whatever the seed

    for cut in cuts_of(disk.journal, random.Random(seed)):      # every moment since the disk was new
        again = MessageStore(settings, clock=clock, files=SimulatedDisk(cut.image))
        again.open()            # `cut.story` tells what was kept

It stands behind the store's one door to the file system (`pyromq.store.files.Files`), so the store runs as it
is: it writes, maps and syncs, and only the disk is not real.

- `after_power_cut`, `cuts_of`: what the disk may hold after the power failed. What was synced is there. Of
  what was not, each write and each change of a name may be there or not, in any combination, and a write may
  be there in part. A new name needs a sync of its folder, a write a sync of its file.
- `after_kill`, `kills_of`: what the next process finds when this one is killed; the machine lives, so nothing
  is lost. Its `boot_id` stays the same, which that of `after_power_cut` does not.
- `journal` and `mark`: everything that was done, in order, with notes of the test's own in between.
- `capacity_bytes`: writes that do not fit fail as on a full disk, with a part of them written.
- `fail_syncs`, `fail_writes`: the disk says EIO. After a failed sync the bytes count as clean, as on Linux:
  the next sync says that all is well, and they are still not on the disk.
- `flip_bit`, `cut_file`: damage, as an old disk or a person does it.
"""

from pyromq.testing.disk.cuts import Cut, cuts_of, kills_of, tears_anywhere, tears_at_sectors
from pyromq.testing.disk.journal import Image, Mark, Operation, Platter
from pyromq.testing.disk.simulated import SimulatedDisk

__all__ = [
    "Cut",
    "Image",
    "Mark",
    "Operation",
    "Platter",
    "SimulatedDisk",
    "cuts_of",
    "kills_of",
    "tears_anywhere",
    "tears_at_sectors",
]
