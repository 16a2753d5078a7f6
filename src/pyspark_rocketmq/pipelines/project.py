"""A pipeline's project: the meaning of a path, and the files that a new pipeline starts with."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError
from pyspark_rocketmq.pipelines import __file__ as _package

TEMPLATES: Final = Path(_package).parent / "templates"
SUFFIXES: Final = (".yml", ".yaml")
DECLARATIVE_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
STREAMING_NAMES: Final = ("pipeline.yml", "pipeline.yaml")


class PipelineKind(StrEnum):
    """The two kinds of pipelines."""

    #: One file, run by us as Structured Streaming.
    STREAMING = "streaming"
    #: A folder, run by Spark Declarative Pipelines.
    DECLARATIVE = "declarative"


@dataclass(frozen=True, slots=True)
class Project:
    """A pipeline's kind and its file."""

    kind: PipelineKind
    file: Path


def find_project(path: Path) -> Project:
    """Return which pipeline a folder or a file is; raise ConfigError that says what was looked for."""
    if path.is_file():
        kind = PipelineKind.DECLARATIVE if path.name in DECLARATIVE_NAMES else PipelineKind.STREAMING
        return Project(kind, path)
    if not path.is_dir():
        raise ConfigError(f"there is no {path}; `pyromq pipeline init {path}` makes a pipeline there")
    found = [path / name for name in (*DECLARATIVE_NAMES, *STREAMING_NAMES) if (path / name).is_file()]
    if len(found) > 1:
        raise ConfigError(f"{path} has {' and '.join(one.name for one in found)}; say which file")
    if not found:
        raise ConfigError(
            f"{path} has neither {DECLARATIVE_NAMES[0]} nor {STREAMING_NAMES[0]}; "
            f"`pyromq pipeline init {path / STREAMING_NAMES[0]}` makes one"
        )
    return find_project(found[0])


def create_project(path: Path) -> tuple[PipelineKind, list[Path]]:
    """Write a new pipeline and return its kind and its files: one file if the name ends so, else a folder.

    Nothing that is there is written over: then it is ConfigError.
    """
    if path.suffix in SUFFIXES:
        files = {path: (TEMPLATES / "pipeline.yml").read_text(encoding="utf-8")}
        kind = PipelineKind.STREAMING
    else:
        files = _declarative_files(path)
        kind = PipelineKind.DECLARATIVE
    there = [file for file in files if file.exists()]
    if there:
        raise ConfigError(
            f"{there[0]} is there already; nothing was written. Choose another place, or remove it"
        )
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return kind, list(files)


def _declarative_files(folder: Path) -> dict[Path, str]:
    root = TEMPLATES / "declarative"
    place = folder.resolve()
    words = {"@NAME@": place.name, "@STORAGE@": (place / "checkpoints").as_uri(), "@FOLDER@": str(place)}
    files = {}
    for template in sorted(root.rglob("*")):
        if template.is_file() and "__pycache__" not in template.parts:
            text = template.read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            name = ".gitignore" if template.name == "gitignore" else template.relative_to(root)
            files[folder / name] = text
    return files
