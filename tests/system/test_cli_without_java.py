"""A machine without Java, or with one too old: all works but Spark, which says so, and what mends it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NEEDED = "Spark needs Java 17 or newer"


@pytest.fixture
def no_java(shell: Any, tmp_path: Path) -> Path:
    """The only folder of the PATH, an empty one; returned to put programs there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shell.environment.pop("JAVA_HOME", None)
    shell.environment["PATH"] = str(programs)
    return programs


@pytest.fixture
def pipeline(shell: Any, tmp_path: Path) -> Path:
    """A first pipeline, with a mistake in its file."""
    shell.output_of("pipeline", "init", "shop/pipeline.yml")
    file = tmp_path / "shop" / "pipeline.yml"
    file.write_text(file.read_text().replace("subscribe: orders", "subscrib: orders"))
    return file


@pytest.mark.usefixtures("no_java")
def test_brokers_and_clients_work_without_java(shell: Any, up: Callable[..., Any]) -> None:
    address = up().ready()["namesrv"]

    shell.output_of("produce", "-n", address, "hello", "Hello, world")

    assert "Hello, world" in shell.output_of("consume", "-n", address, "hello")


@pytest.mark.usefixtures("no_java")
def test_a_pipeline_that_cannot_start_says_so_before_it_looks_at_anything(shell: Any, pipeline: Path) -> None:
    ended = shell.run("pipeline", "run", "shop")

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"pyromq: {NEEDED}")
    assert "subscrib" not in ended.stderr
    assert pipeline.exists()


@pytest.mark.usefixtures("pipeline")
def test_the_command_that_installs_java_is_named(shell: Any, no_java: Path) -> None:
    tool = no_java / "apt-get"
    tool.write_text("")
    tool.chmod(0o755)

    ended = shell.run("pipeline", "run", "shop")

    assert "apt-get install -y openjdk-17-jre-headless" in ended.stderr.splitlines()[1]


@pytest.mark.usefixtures("pipeline")
def test_a_java_that_is_too_old_is_named_with_its_version(shell: Any, no_java: Path) -> None:
    java = no_java / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)

    ended = shell.run("pipeline", "run", "shop")

    assert ended.stderr.startswith(f"pyromq: {NEEDED}, and {java} is 11; install a newer one with")


@pytest.mark.usefixtures("no_java", "pipeline")
def test_the_file_is_checked_without_java_too(shell: Any) -> None:
    ended = shell.run("pipeline", "check", "shop")

    assert ended.returncode == 1
    assert NEEDED in ended.stderr
    assert "did you mean 'subscribe'?" in ended.stdout
    assert ended.stdout.startswith("shop/pipeline.yml:7:3: source.subscrib")
