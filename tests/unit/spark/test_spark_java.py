"""The Java that Spark needs, looked for before anything starts."""

import sys
from pathlib import Path

import pytest

from pyromq.cli.spark.pipeline import PipelineOrder, SparkChoice, run_check, run_init, run_pipeline
from pyromq.errors import ConfigError
from pyspark_rocketmq.java import JavaMissing, check_java, install_command
from pyspark_rocketmq.session import SparkPlace, check_machine


def fake_java(home: Path, version: str) -> None:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("24-ea", 24)])
def test_a_java_that_is_new_enough_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert check_java() == major


@pytest.mark.parametrize(("version", "said"), [("11.0.2", "11"), ("1.8.0_392", "8"), ("?", "does not tell")])
def test_an_old_java_is_named_with_what_installs_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, said: str
) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match=said) as raised:
        check_java()

    assert install_command() in str(raised.value)


def test_without_java_the_command_that_installs_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaMissing, match=r"needs Java 17 or newer.*none on this machine"):
        check_java()


def test_a_java_home_without_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))

    with pytest.raises(JavaMissing, match="does not start"):
        check_java()


def test_a_spark_connect_server_needs_no_java_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))

    check_machine(SparkPlace(remote="sc://spark:15002"))
    with pytest.raises(ConfigError, match="one of them"):
        check_machine(SparkPlace(master="local[2]", remote="sc://spark:15002"))


@pytest.mark.parametrize("name", ["shop/pipeline.yml", "shop"])
def test_a_pipeline_without_pyspark_names_the_command_that_installs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_init(tmp_path / name, is_json=True)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    running = PipelineOrder(
        SparkChoice(), None, is_once=True, creates_topics=False, is_full_refresh=False, is_json=False
    )

    with pytest.raises(ConfigError, match=r"needs pyspark.*\n.*-m pip install 'pyromq\[spark\]'"):
        run_check(tmp_path / name, SparkChoice(), name_server=None, is_json=False)
    with pytest.raises(ConfigError, match=r"needs pyspark.*\n.*-m pip install 'pyromq\[spark\]'"):
        run_pipeline(tmp_path / name, running)
