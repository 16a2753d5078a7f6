"""Fetch and build the gRPC SDKs of 5.x, each with the program that drives it."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from harness import toolchains
from harness.toolchains import CACHE, JAVAC, JVM, PROGRAMS, RUST_TIMEOUT_S, built, run_tool, tool

SDKS = PROGRAMS / "sdk"


def java_sdk() -> list[str]:
    """Return the command that runs the Java driver."""
    pom, source = SDKS / "java" / "sdk-5.1.0.xml", SDKS / "java" / "Sdk.java"
    classpath = toolchains.classpath_of("sdk-5.1.0", pom)

    def build(target: Path) -> None:
        run_tool([*JAVAC, "-cp", classpath, "-d", target, source])

    classes = built("sdk-java", [source], build)
    words = [tool("java"), *JVM, "-Xmx256m", "-Dfile.encoding=UTF-8"]
    return [*words, "-cp", f"{classes}:{classpath}", "Sdk"]


def first_java(source: Path) -> list[str]:
    """Return the command that runs the class `First` of a file."""
    classpath = toolchains.classpath_of("sdk-5.1.0", SDKS / "java" / "sdk-5.1.0.xml")

    def build(target: Path) -> None:
        run_tool([*JAVAC, "-cp", classpath, "-d", target, source])

    return [
        tool("java"),
        *JVM,
        "-Xmx256m",
        "-cp",
        f"{built('sdk-java-first', [source], build)}:{classpath}",
        "First",
    ]


def python_sdk() -> list[str]:
    """Return the command that runs the Python driver, in a virtual environment of its own."""
    source = SDKS / "python"

    def build(target: Path) -> None:
        run_tool([sys.executable, "-m", "venv", target / "venv"])
        run_tool([target / "venv/bin/pip", "install", "-q", "-r", source / "requirements.txt"])
        run_tool([target / "venv/bin/python", "-c", "import rocketmq"])

    environment = built("sdk-python", [source / "requirements.txt"], build)
    return [str(environment / "venv/bin/python"), str(source / "sdk.py")]


def first_python(source: Path) -> list[str]:
    """Return the command that runs a file."""
    return [python_sdk()[0], str(source)]


def node_sdk() -> list[str]:
    """Return the command that runs the driver for Node beside its installed packages."""
    source = SDKS / "node"
    parts = [source / name for name in ("sdk.js", "package.json", "package-lock.json")]

    def build(target: Path) -> None:
        for part in parts:
            shutil.copy(part, target)
        run_tool(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=target)

    return [tool("node"), str(built("sdk-node", parts, build) / "sdk.js")]


def first_node(source: Path) -> list[str]:
    """Return the command that runs a file beside the installed packages."""
    place = Path(node_sdk()[1]).parent / f"{source.parent.name}.js"
    shutil.copy(source, place)
    return [tool("node"), str(place)]


def go_sdk() -> list[str]:
    """Return the command that runs the Go driver."""
    source = SDKS / "go"
    parts = [source / name for name in ("main.go", "go.mod", "go.sum")]

    def build(target: Path) -> None:
        run_tool(["go", "build", "-o", target / "sdk", "."], cwd=source)

    return [str(built("sdk-go", parts, build) / "sdk")]


def first_go(source: Path) -> list[str]:
    """Return the command that runs a file, built with the driver's modules."""
    modules = [SDKS / "go" / name for name in ("go.mod", "go.sum")]

    def build(target: Path) -> None:
        for part in modules:
            shutil.copy(part, target)
        shutil.copy(source, target / "main.go")
        run_tool(["go", "build", "-o", target / "first", "."], cwd=target)

    return [str(built("sdk-go-first", [source, *modules], build) / "first")]


def rust_sdk() -> list[str]:
    """Return the command that runs the Rust driver; the first build of its crates takes minutes."""
    return [_rust("sdk-rust", SDKS / "rust" / "src" / "main.rs")]


def first_rust(source: Path) -> list[str]:
    """Return the command that runs a file, built with the driver's crates."""
    return [_rust("sdk-rust-first", source)]


def _rust(name: str, source: Path) -> str:
    crates = [SDKS / "rust" / part for part in ("Cargo.toml", "Cargo.lock")]
    #: Kept when a program changes, so that only the program is built again.
    kept = CACHE / "sdk-rust-crates"

    def build(target: Path) -> None:
        (target / "src").mkdir()
        shutil.copy(source, target / "src" / "main.rs")
        for part in crates:
            shutil.copy(part, target)
        words = ["cargo", "build", "--locked", "--target-dir", kept]
        run_tool(words, cwd=target, timeout_s=RUST_TIMEOUT_S)
        shutil.copy(kept / "debug" / "sdk", target)

    return str(built(name, [source, *crates], build) / "sdk")


#: What builds the first program of `docs/howto/sdk-5.md` in each language.
FIRST: dict[str, Callable[[Path], list[str]]] = {
    "First.java": first_java,
    "first.go": first_go,
    "first.py": first_python,
    "first.js": first_node,
    "first.rs": first_rust,
}
