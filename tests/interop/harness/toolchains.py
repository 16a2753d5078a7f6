"""Fetch and build what the interop tests run, once, under `.cache/interop` of the project.

Nothing here is tied to a registry: Maven, Go, npm and pip find theirs by their own settings. A tool or a
registry that is missing raises `Unavailable`; so does a build that fails, with the tool's own words.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

INTEROP = Path(__file__).resolve().parents[1]
PROGRAMS = INTEROP / "programs"
CACHE = INTEROP.parents[1] / ".cache" / "interop"

#: Seconds for one tool to fetch and build; only a machine with empty caches comes near.
BUILD_TIMEOUT_S = 600
#: The same for the Rust client, whose crates are all compiled.
RUST_TIMEOUT_S = 1800
#: A registry may be out of breath for a moment: as often is a build begun.
BUILDS_MAX = 3
#: Quick to start and small: none of these processes lives long enough to be worth optimising.
JVM = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
JAVAC = ["javac", *(f"-J{flag}" for flag in JVM), "-nowarn", "-encoding", "UTF-8"]


class Unavailable(Exception):
    """A toolchain or a package registry is missing."""


class BuildFailed(Unavailable):
    """A tool is there, and could not fetch or build what it was asked for."""


def java_classpath(project: str) -> str:
    """Return the class path of `programs/java/{project}.xml`, resolved by Maven."""
    return classpath_of(project, PROGRAMS / "java" / f"{project}.xml")


def classpath_of(project: str, pom: Path) -> str:
    """Return the class path of a project's file, resolved by Maven."""

    def build(target: Path) -> None:
        run_tool(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                pom,
                "dependency:build-classpath",
                f"-Dmdep.outputFile={target / 'classpath'}",
            ]
        )

    return (built(f"java-{project}", [pom], build) / "classpath").read_text()


def java_client(version: str) -> list[str]:
    """Return the command that runs the Java driver on the given client version, without its arguments."""
    classpath = java_classpath(f"client-{version}")
    sources = [PROGRAMS / "java" / "Interop.java", PROGRAMS / "java" / f"v{version[0]}" / "Topics.java"]

    def build(target: Path) -> None:
        run_tool([*JAVAC, "-cp", classpath, "-d", target, *sources])

    classes = built(f"java-driver-{version}", sources, build)
    return [tool("java"), *JVM, "-Xmx256m", "-cp", f"{classes}:{classpath}"]


def java_class(name: str, version: str, options: Sequence[str] = (), *, jars: str | None = None) -> list[str]:
    """Return the command that runs `programs/java/{name}.java`, a program by itself, on a client version.

    `jars` names another class path than the client's.
    """
    classpath = java_classpath(jars or f"client-{version}")
    source = PROGRAMS / "java" / f"{name}.java"

    def build(target: Path) -> None:
        run_tool([*JAVAC, "-cp", classpath, "-d", target, source])

    classes = built(f"java-{name}-{version}", [source], build)
    words = [tool("java"), *JVM, "-Dfile.encoding=UTF-8", *options, "-Xmx256m"]
    return [*words, "-cp", f"{classes}:{classpath}", name]


def java_classes(name: str, sources: Sequence[Path], classpath: str) -> str:
    """Return the folder of compiled Java sources."""

    def build(target: Path) -> None:
        run_tool([*JAVAC, "-cp", classpath, "-d", target, *sources])

    return str(built(f"java-{name}", sources, build))


def go_client() -> list[str]:
    """Return the command that runs the Go driver."""
    source = PROGRAMS / "go"

    def build(target: Path) -> None:
        run_tool(["go", "build", "-o", target / "interop", "."], cwd=source)

    return [str(built("go", [source / "main.go", source / "go.mod", source / "go.sum"], build) / "interop")]


def cpp_client() -> list[str]:
    """Return the command that runs the C++ client's driver, in a virtual environment of its own."""
    source = PROGRAMS / "cpp"

    def build(target: Path) -> None:
        run_tool([sys.executable, "-m", "venv", target / "venv"])
        run_tool([target / "venv/bin/pip", "install", "-q", "-r", source / "requirements.txt"])
        run_tool([target / "venv/bin/python", "-c", "import rocketmq.client"])

    environment = built("cpp", [source / "requirements.txt"], build)
    return [str(environment / "venv/bin/python"), str(source / "interop.py")]


def js_client() -> list[str]:
    """Return the command that runs the JavaScript driver beside its installed packages."""
    source = PROGRAMS / "js"
    parts = [source / name for name in ("interop.js", "package.json", "package-lock.json")]

    def build(target: Path) -> None:
        for part in parts:
            shutil.copy(part, target)
        run_tool(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=target)

    return [tool("node"), str(built("js", parts, build) / "interop.js")]


def rust_client() -> list[str]:
    """Return the command that runs the Rust driver; the first build of its many crates takes minutes."""
    source = PROGRAMS / "rust"
    parts = [source / name for name in ("Cargo.toml", "Cargo.lock", "src/main.rs")]
    #: Kept when the driver changes, so that only the driver is built again.
    crates = CACHE / "rust-crates"

    def build(target: Path) -> None:
        run_tool(["cargo", "build", "--locked", "--target-dir", crates], cwd=source, timeout_s=RUST_TIMEOUT_S)
        shutil.copy(crates / "debug" / "interop", target)

    return [str(built("rust", parts, build) / "interop")]


def built(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """Return the folder of a finished build of these very sources, building it if it is not there."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    target = CACHE / f"{name}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not (target / ".finished").exists():
            _build(target, build)
            (target / ".finished").touch()
    return target


def _build(target: Path, build: Callable[[Path], None]) -> None:
    for left in reversed(range(BUILDS_MAX)):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        try:
            build(target)
        except BuildFailed:
            if not left:
                raise
        else:
            return


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # Test processes that run side by side build each thing once.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tool(name: str) -> str:
    """Return the path of an installed program."""
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not installed")
    return found


def run_tool(
    command: Sequence[str | Path], cwd: Path | None = None, timeout_s: float = BUILD_TIMEOUT_S
) -> None:
    """Run a tool that fetches or builds, and raise what it says when it fails."""
    words = [tool(str(command[0])), *map(str, command[1:])]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={"MAVEN_OPTS": " ".join(JVM), **os.environ, "NO_UPDATE_NOTIFIER": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(words)}: no end after {timeout_s} s") from error
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(words)}: status {done.returncode}: {done.stdout.strip()[-800:]}")
