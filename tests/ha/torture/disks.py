"""A disk of a node's own, which can be full, slow or stuck.

The disk is an ext4 file system in a file, mounted by a loop device; that takes root. Full is really full: a
file takes all the room there is. Slow is `FIFREEZE`, which the kernel has for snapshots: whoever writes to a
frozen file system waits in the kernel until it is thawed, as on a disk that hangs.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

_FREEZE = 0xC0045877
_THAW = 0xC0045878
_FILLER = "filler"


def why_no_disks() -> str | None:
    """Return why there are no disks of one's own here, or None when there are."""
    if os.geteuid() != 0:
        return "mounting a disk of a node's own takes root"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return None if shutil.which("mkfs.ext4") else "there is no mkfs.ext4"


class Disk:
    """One mounted file system; `folder` is where."""

    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        self.folder = folder
        self._image = folder.with_name(folder.name + ".img")
        self._size_bytes = size_bytes
        self._is_mounted = False

    def mount(self) -> None:
        """Make the file system and mount it."""
        self.folder.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(self._size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(self._image))
        _run("mount", "-o", "loop", str(self._image), str(self.folder))
        self._is_mounted = True

    def fill(self) -> None:
        """Leave no room."""
        with (self.folder / _FILLER).open("wb") as filler, contextlib.suppress(OSError):
            for block in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(bytes(block))
                        filler.flush()

    def empty(self) -> None:
        """Give the room back."""
        (self.folder / _FILLER).unlink(missing_ok=True)

    def freeze(self) -> None:
        """Let whoever writes wait."""
        self._control(_FREEZE)

    def thaw(self) -> None:
        """Let writes go on."""
        self._control(_THAW)

    def _control(self, request: int) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            # Freezing what is frozen, or thawing what is not, is nothing to talk about.
            with contextlib.suppress(OSError):
                fcntl.ioctl(folder, request, 0)
        finally:
            os.close(folder)

    def unmount(self, *, keep: Path | None = None) -> None:
        """Take it away; what was on it is copied to `keep` if somebody wants to look at it."""
        if not self._is_mounted:
            return
        self.thaw()
        self.empty()
        if keep is not None:
            shutil.copytree(self.folder, keep, dirs_exist_ok=True)
        _run("umount", "-l", str(self.folder))
        self._is_mounted = False
        self._image.unlink()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=30)
