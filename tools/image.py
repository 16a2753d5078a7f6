"""Make an image of PyroMQ from the wheels in dist/, and try it.

    python tools/image.py [--engine docker|podman|buildah] [--base IMAGE|debootstrap] [--build …] [--run …]

The engine is the first of the three that works here. The base is any image with Python 3.11 or later;
`debootstrap` makes one of Debian's packages, as root, where no registry of images is reached. What was built
is then run: a name server and a broker on 127.0.0.1, whose root cannot be written. Both must become ready by
the image's own health check, store a message and give it back, and end with status 0 at SIGTERM.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SUITE: Final = "bookworm"
PACKAGES: Final = "python3,python3-venv,ca-certificates"
OWN_BASE: Final = "localhost/pyromq-base"
IMAGE: Final = "pyromq"
#: Where Debian has the authorities that a machine trusts; a proxy's may be among them.
AUTHORITIES: Final = "/etc/ssl/certs"
#: podman and buildah: the format that knows HEALTHCHECK; a build without a network of its own.
BUILD: Final = (
    *("--format=docker", "--isolation=chroot", "--network=host"),
    f"--volume={AUTHORITIES}:{AUTHORITIES}:ro",
)
#: Options with which containers may start, the first that work: this may be a container itself, with limits.
RUNS: Final = (
    "",
    "--ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024",
    "--runtime=runc --ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024",
)
READY_S: Final = 60
#: The uid that the Dockerfile gives the user.
UID: Final = "10001"

sys.path[:0] = [str(ROOT / "tests" / part) for part in ("support", "interop")]


class Engine:
    """A program that builds images, and perhaps runs them."""

    def __init__(self, name: str, run_options: str | None) -> None:
        self.name = name
        self.is_docker = name == "docker"
        self._run_options = run_options

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of its commands, and return what it says."""
        return subprocess.run([self.name, *words], capture_output=True, text=True, check=False, timeout=300)

    def must(self, *words: str) -> str:
        """Run one of its commands that must succeed, and return what it prints."""
        ended = self.say(*words)
        if ended.returncode:
            raise SystemExit(f"{self.name} {shlex.join(words)} ended with {ended.returncode}\n{ended.stderr}")
        return ended.stdout.strip()

    def build(self, base: str, options: Sequence[str]) -> None:
        """Build the image; what it says goes to the terminal."""
        words = [self.name, "build", *(() if self.is_docker else BUILD), *options]
        words += ["--build-arg", f"BASE={base}", "-f", "deploy/docker/Dockerfile", "-t", IMAGE, "."]
        print(shlex.join(words), flush=True)
        subprocess.run(words, cwd=ROOT, check=True)

    def options_to_run(self) -> list[str]:
        """Return options with which a container starts; stop if there are none."""
        failures = []
        for options in RUNS if self._run_options is None else (self._run_options,):
            tried = self.say("run", "--rm", "--network=host", *shlex.split(options), IMAGE, "version")
            if tried.returncode == 0:
                return shlex.split(options)
            failures.append(tried.stderr.strip().rpartition("\n")[2])
        raise SystemExit("the image was built; no container starts here:\n  " + "\n  ".join(failures))


def engine_here(named: str | None, run_options: str | None) -> Engine:
    """Return the engine that was named, or the first that works."""
    for name in (named,) if named else ("docker", "podman", "buildah"):
        if shutil.which(name) is None:
            continue
        engine = Engine(name, run_options)
        # A docker without its daemon can do nothing.
        if named or engine.say("info").returncode == 0:
            return engine
    raise SystemExit(
        "neither docker (with its daemon), podman nor buildah works here: apt-get install podman"
    )


def make_base(engine: Engine) -> str:
    """Make a base of Debian's packages, unless it is there; return its name."""
    if engine.is_docker:
        has = engine.say("image", "inspect", OWN_BASE)
    else:
        has = engine.say("inspect", "--type", "image", OWN_BASE)
    if has.returncode == 0:
        return OWN_BASE
    with TemporaryDirectory() as name:
        words = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, f"{name}/root"]
        print(shlex.join(words), flush=True)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        packed = f"{name}/root.tar"
        subprocess.run(["tar", "-C", f"{name}/root", "-cf", packed, "."], check=True)
        if engine.name == "buildah":
            container = engine.must("from", "scratch")
            engine.must("add", container, packed, "/")
            engine.must("commit", "--rm", container, OWN_BASE)
        else:
            engine.must("import", packed, OWN_BASE)
    return OWN_BASE


class Container:
    """A server in a container."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name

    def is_ready(self) -> bool:
        """Ask as the image's HEALTHCHECK does."""
        return self._engine.say("exec", self.name, "pyromq", "health").returncode == 0

    def ask(self, *words: str) -> str:
        """Run a command of pyromq in it."""
        return self._engine.must("exec", self.name, "pyromq", *words)

    def uid(self) -> str:
        """The user that it runs as."""
        return self._engine.must("exec", self.name, "id", "-u")

    def log(self) -> str:
        """What it printed."""
        said = self._engine.say("logs", self.name)
        return said.stdout + said.stderr

    def stop(self) -> int:
        """Have it end by SIGTERM; return its status."""
        self._engine.must("stop", "-t", "60", self.name)
        return int(self._engine.must("inspect", "--format", "{{.State.ExitCode}}", self.name))


@contextmanager
def started(
    engine: Engine, options: Sequence[str], name: str, health: int, *command: str
) -> Iterator[Container]:
    """Start a server for the block; it is ready then."""
    own = f"pyromq-try-{name}-{os.getpid()}"
    variables = {
        "PYROMQ_BIND_ADDRESS": "127.0.0.1",
        "PYROMQ_BROKER_IP1": "127.0.0.1",
        "PYROMQ_HEALTH_PORT": str(health),
    }
    said = [word for key, value in variables.items() for word in ("-e", f"{key}={value}")]
    kept = ["--network=host", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL"]
    engine.must("run", "-d", "--name", own, *kept, *options, *said, IMAGE, *command)
    container = Container(engine, own)
    try:
        deadline = time.monotonic() + READY_S
        while not container.is_ready():
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} is not ready after {READY_S} s:\n{container.log()}")
            time.sleep(0.5)
        yield container
    finally:
        engine.say("rm", "-f", "-v", own)


def try_out(engine: Engine) -> None:
    """Run a name server and a broker of the image; stop at what does not work."""
    from harness.ports import free_broker_port

    options = engine.options_to_run()
    first = free_broker_port()
    name_server = f"127.0.0.1:{first}"
    other = free_broker_port()
    with ExitStack() as closing:
        names = closing.enter_context(
            started(engine, options, "namesrv", first + 1, "namesrv", "-p", str(first))
        )
        broker = closing.enter_context(
            started(
                *(engine, options, "broker", other + 3, "broker", "-n", name_server),
                *("--port", str(other), "--set", "grpcServerPort=0"),
            )
        )
        broker.ask("produce", "-n", name_server, "try", "it works")
        read = broker.ask(
            "consume", "-n", name_server, "try", "--from", "first", "--count", "1", "--body-only"
        )
        found = {"read": read, "uid": broker.uid()}
        found["statuses"] = str([broker.stop(), names.stop()])
        if found != {"read": "it works", "uid": UID, "statuses": "[0, 0]"}:
            raise SystemExit(f"the image does not do what it should: {json.dumps(found)}\n{broker.log()}")
    print(
        f"tried: ready by its health check, a message stored and read, ended by SIGTERM: {json.dumps(found)}"
    )


def main() -> int:
    """Build it, and try it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine")
    parser.add_argument("--base", default="python:3.12-slim-bookworm")
    parser.add_argument("--build", default="", help="further options for the build")
    parser.add_argument("--run", help="options for containers")
    given = parser.parse_args()
    engine = engine_here(given.engine, given.run)
    base = make_base(engine) if given.base == "debootstrap" else given.base
    engine.build(base, shlex.split(given.build))
    if engine.name == "buildah":
        print("built, and not tried: buildah runs no servers; podman and docker do")
        return 0
    try_out(engine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
