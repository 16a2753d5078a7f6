"""Fetch and build the gRPC SDKs of 5.x, each with the program that drives it."""

import shutil
import sys
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


def python_sdk() -> list[str]:
    """Return the command that runs the Python driver, in a virtual environment of its own."""
    source = SDKS / "python"

    def build(target: Path) -> None:
        run_tool([sys.executable, "-m", "venv", target / "venv"])
        run_tool([target / "venv/bin/pip", "install", "-q", "-r", source / "requirements.txt"])
        run_tool([target / "venv/bin/python", "-c", "import rocketmq"])

    environment = built("sdk-python", [source / "requirements.txt"], build)
    return [str(environment / "venv/bin/python"), str(source / "sdk.py")]


def node_sdk() -> list[str]:
    """Return the command that runs the driver for Node beside its installed packages."""
    source = SDKS / "node"
    parts = [source / name for name in ("sdk.js", "package.json", "package-lock.json")]

    def build(target: Path) -> None:
        for part in parts:
            shutil.copy(part, target)
        run_tool(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=target)

    return [tool("node"), str(built("sdk-node", parts, build) / "sdk.js")]


def go_sdk() -> list[str]:
    """Return the command that runs the Go driver."""
    source = SDKS / "go"
    parts = [source / name for name in ("main.go", "go.mod", "go.sum")]

    def build(target: Path) -> None:
        run_tool(["go", "build", "-o", target / "sdk", "."], cwd=source)

    return [str(built("sdk-go", parts, build) / "sdk")]


def rust_sdk() -> list[str]:
    """Return the command that runs the Rust driver; the first build of its crates takes minutes."""
    source = SDKS / "rust"
    parts = [source / name for name in ("Cargo.toml", "Cargo.lock", "src/main.rs")]
    crates = CACHE / "sdk-rust-crates"

    def build(target: Path) -> None:
        run_tool(["cargo", "build", "--locked", "--target-dir", crates], cwd=source, timeout_s=RUST_TIMEOUT_S)
        shutil.copy(crates / "debug" / "sdk", target)

    return [str(built("sdk-rust", parts, build) / "sdk")]
