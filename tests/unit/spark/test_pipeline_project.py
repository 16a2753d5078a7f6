"""What `pyromq pipeline` takes for a pipeline, and what it writes for a new one."""

import ast
from pathlib import Path

import pytest
import yaml

from pyromq.errors import ConfigError
from pyspark_rocketmq.pipelines.declarative import check_packages
from pyspark_rocketmq.pipelines.project import PipelineKind, create_project, find_project


def test_a_name_that_ends_in_yml_becomes_one_file(tmp_path: Path) -> None:
    kind, files = create_project(tmp_path / "new" / "pipeline.yml")

    assert (kind, files) == (PipelineKind.STREAMING, [tmp_path / "new" / "pipeline.yml"])
    assert find_project(tmp_path / "new").kind is PipelineKind.STREAMING


def test_any_other_name_becomes_a_folder_for_declarative_pipelines(tmp_path: Path) -> None:
    kind, files = create_project(tmp_path / "shop")

    assert kind is PipelineKind.DECLARATIVE
    assert find_project(tmp_path / "shop").file == tmp_path / "shop" / "spark-pipeline.yml"
    spec = yaml.safe_load((tmp_path / "shop" / "spark-pipeline.yml").read_text())
    assert (spec["name"], spec["storage"]) == ("shop", (tmp_path / "shop" / "checkpoints").as_uri())
    assert all(isinstance(value, str) for value in spec["configuration"].values()), "Spark takes texts only"
    defaults = (tmp_path / "shop" / "spark-defaults.conf").read_text()
    assert f"databaseName={tmp_path / 'shop' / 'catalog'};create=true" in defaults
    assert {"bronze.py", "answers.py", "silver_and_gold.sql", ".gitignore"} <= {file.name for file in files}
    assert not [file for file in files if "@" in file.read_text().replace("@dp.", "")]


def test_the_python_files_of_a_new_project_can_be_parsed(tmp_path: Path) -> None:
    _, files = create_project(tmp_path / "shop")

    parsed = [ast.parse(file.read_text()) for file in files if file.suffix == ".py"]

    assert len(parsed) == 2


def test_nothing_is_written_over(tmp_path: Path) -> None:
    create_project(tmp_path / "shop")
    (tmp_path / "shop" / "transformations" / "bronze.py").write_text("mine")

    with pytest.raises(ConfigError, match="is there already; nothing was written"):
        create_project(tmp_path / "shop")

    assert (tmp_path / "shop" / "transformations" / "bronze.py").read_text() == "mine"


def test_a_folder_without_a_pipeline_is_told_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has neither spark-pipeline"):
        find_project(tmp_path)
    with pytest.raises(ConfigError, match="pyromq pipeline init"):
        find_project(tmp_path / "nowhere")


def test_of_two_pipelines_in_a_folder_one_is_to_be_named(tmp_path: Path) -> None:
    create_project(tmp_path)
    create_project(tmp_path / "pipeline.yml")

    with pytest.raises(ConfigError, match="say which file"):
        find_project(tmp_path)
    assert find_project(tmp_path / "pipeline.yml").kind is PipelineKind.STREAMING


def test_packages_that_are_missing_come_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    with pytest.raises(ConfigError, match=r"need grpc, .*\n.*-m pip install 'pyromq\[pipelines\]'"):
        check_packages()
