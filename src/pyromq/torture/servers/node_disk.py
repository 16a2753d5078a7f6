"""A disk of a node's own, which can be full, slow or stuck.

    root      an ext4 file system in a file of the data folder, mounted by a loop device
    others    a tmpfs in a namespace of the user's own: the broker writes to memory instead of the disk

Full is really full: a file takes all the room there is. Slow is `FIFREEZE`, which the kernel has for
snapshots and which takes root: whoever writes to a frozen file system waits in the kernel until it is thawed,
as on a disk that hangs.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from pyromq.torture.servers.processes import ChildProcess, start

_FREEZE = 0xC0045877
_THAW = 0xC0045878
_FILLER = "filler"
_MOUNT_S_MAX = 30
#: Thaws and unmounts a disk that nobody did: a process that writes to a frozen disk cannot even be killed.
_GUARD = 'cat > /dev/null; exec 2> /dev/null; fsfreeze -u "$1"; umount -l "$1"; true'


def why_no_disks() -> str | None:
    """Return why there are no disks that can be frozen here, or None when there are."""
    if os.geteuid() != 0:
        return "a disk that hangs takes root: run the same command with sudo"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices here (/dev/loop-control)"
    if shutil.which("fsfreeze") is None:
        return "there is no fsfreeze: apt-get install util-linux"
    return None if shutil.which("mkfs.ext4") else "there is no mkfs.ext4: apt-get install e2fsprogs"


def why_no_full_disks() -> str | None:
    """Return why no disk can be full here, or None when one can."""
    reason = why_no_disks()
    if reason is None:
        return None
    for program in ("unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"a full disk takes root, or the program {program}: apt-get install util-linux"
    command = [*_UNSHARE, "mount", "-t", "tmpfs", "none", "/tmp"]
    done = subprocess.run(command, capture_output=True, timeout=_MOUNT_S_MAX, check=False)
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").strip()
    return (
        f"a full disk takes root, or user namespaces, which are off here ({said}): run the same "
        "command with sudo, or sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    )


class Disk(Protocol):
    """A file system of a node's own."""

    #: Where the node finds it.
    folder: Path

    @property
    def outside(self) -> Path:
        """The path by which this process finds it."""
        ...

    @property
    def prefix(self) -> Sequence[str]:
        """A command that a program must be started with to see it."""
        ...

    def mount(self) -> None:
        """Make the file system and mount it."""
        ...

    def fill(self) -> None:
        """Leave no room."""
        ...

    def empty(self) -> None:
        """Give the room back."""
        ...

    def freeze(self) -> None:
        """Let whoever writes wait."""
        ...

    def thaw(self) -> None:
        """Let writes go on."""
        ...

    def unmount(self, *, keep: Path | None = None) -> None:
        """Take it away; what was on it is copied to `keep` if somebody wants to look at it."""
        ...


def new_disk(folder: Path, *, size_bytes: int) -> Disk:
    """Return the best disk that this machine allows."""
    if why_no_disks() is None:
        return LoopDisk(folder, size_bytes=size_bytes)
    return MemoryDisk(folder, size_bytes=size_bytes)


class LoopDisk:
    """An ext4 in a file; takes root."""

    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        self.folder = folder
        self._image = folder.with_name(folder.name + ".img")
        self._size_bytes = size_bytes
        self._is_mounted = False
        self._is_frozen = False
        #: One at a time fills, empties, freezes or thaws: a write to a frozen disk waits for its end.
        self._turn = threading.Lock()

    @property
    def outside(self) -> Path:
        """The path by which this process finds it."""
        return self.folder

    @property
    def prefix(self) -> Sequence[str]:
        """Nothing: everybody sees it."""
        return ()

    def mount(self) -> None:
        """Make the file system and mount it."""
        self.folder.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(self._size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(self._image))
        _run("mount", "-o", "loop", str(self._image), str(self.folder))
        self._is_mounted = True
        # Whatever becomes of this process: the guard's standard input ends with it.
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", str(self.folder)], stdin=subprocess.PIPE, start_new_session=True
        )

    def fill(self) -> None:
        """Leave no room."""
        with self._writable():
            _fill(self.folder)

    def empty(self) -> None:
        """Give the room back."""
        with self._writable():
            (self.folder / _FILLER).unlink(missing_ok=True)

    def freeze(self) -> None:
        """Let whoever writes wait."""
        with self._turn:
            self._is_frozen = True
            self._control(_FREEZE)

    def thaw(self) -> None:
        """Let writes go on."""
        with self._turn:
            self._is_frozen = False
            self._control(_THAW)

    @contextlib.contextmanager
    def _writable(self) -> Iterator[None]:
        """Thaw a frozen disk for as long as this process writes to it: nobody else would thaw it."""
        with self._turn:
            if self._is_frozen:
                self._control(_THAW)
            try:
                yield
            finally:
                if self._is_frozen:
                    self._control(_FREEZE)

    def _control(self, request: int) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            # Freezing what is frozen, or thawing what is not, is nothing to talk about.
            with contextlib.suppress(OSError):
                fcntl.ioctl(folder, request, 0)
        finally:
            os.close(folder)

    def unmount(self, *, keep: Path | None = None) -> None:
        """Take it away."""
        if not self._is_mounted:
            return
        self.thaw()
        self.empty()
        if keep is not None:
            shutil.copytree(self.folder, keep, dirs_exist_ok=True)
        _run("umount", "-l", str(self.folder))
        self._is_mounted = False
        self._image.unlink()
        self._guard.communicate(timeout=_MOUNT_S_MAX)


_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


class MemoryDisk:
    """A tmpfs in a user's own namespaces, which a process holds; brokers are started inside them."""

    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        self.folder = folder
        self._size_bytes = size_bytes
        self._holder: ChildProcess | None = None

    @property
    def outside(self) -> Path:
        """The path by which this process finds it."""
        assert self._holder is not None
        return Path(f"/proc/{self._holder.pid}/root{self.folder}")

    @property
    def prefix(self) -> Sequence[str]:
        """A command that a program must be started with to see it."""
        assert self._holder is not None
        target = str(self._holder.pid)
        return ("nsenter", "--preserve-credentials", "--user", "--mount", "--target", target)

    def mount(self) -> None:
        """Start the process that holds it, and return when it is there."""
        self.folder.mkdir(parents=True)
        script = 'mount -t tmpfs -o size=$1 none "$2" && touch "$2/mounted" && exec sleep infinity'
        words = ["sh", "-c", script, "sh", str(self._size_bytes), str(self.folder)]
        log = self.folder.with_name(self.folder.name + ".log")
        self._holder = start(words, log, prefix=_UNSHARE)
        while not (self.outside / "mounted").exists():
            if self._holder.wait(0.02):
                raise OSError(f"no disk could be mounted on {self.folder}: {log.read_text().strip()}")

    def fill(self) -> None:
        """Leave no room."""
        _fill(self.outside)

    def empty(self) -> None:
        """Give the room back."""
        (self.outside / _FILLER).unlink(missing_ok=True)

    def freeze(self) -> None:
        """Do nothing: memory does not hang."""

    def thaw(self) -> None:
        """Do nothing."""

    def unmount(self, *, keep: Path | None = None) -> None:
        """Take it away."""
        if self._holder is None:
            return
        if keep is not None:
            self.empty()
            shutil.copytree(self.outside, keep, dirs_exist_ok=True)
        self._holder.signal(signal.SIGKILL)
        self._holder.wait(_MOUNT_S_MAX)
        self._holder = None


def _fill(folder: Path) -> None:
    """Take all the room: at once what the system says is free, then whatever is left."""
    with (folder / _FILLER).open("ab", buffering=0) as filler:
        free = os.statvfs(folder)
        with contextlib.suppress(OSError):
            os.posix_fallocate(filler.fileno(), 0, max(1, (free.f_bavail - 64) * free.f_frsize))
        for block in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while filler.write(bytes(block)):
                    pass


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_MOUNT_S_MAX)
