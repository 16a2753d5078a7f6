"""A YAML file whose parts know where they stand, so that whatever is wrong is named with its line and column.

Nothing is raised at the first mistake: all of them are noted as findings, and told together.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

#: `${NAME}`, or `${NAME:-what stands there otherwise}`.
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class DocumentFinding:
    """Something wrong: where, of what, and what to do."""

    spot: Spot
    of: str
    text: str

    def __str__(self) -> str:
        return f"{self.spot}: {self.of}: {self.text}" if self.of else f"{self.spot}: {self.text}"


@dataclass(slots=True)
class Findings:
    """Everything wrong that was found so far."""

    all: list[DocumentFinding] = field(default_factory=list)

    def add(self, part: "DocumentPart", text: str, spot: Spot | None = None) -> None:
        """Note what is wrong with a part; the spot may be nearer than where the part begins."""
        self.all.append(DocumentFinding(spot or part.spot, part.path, text))


class DocumentPart:
    """A value of the file with its place, and its path from the top, such as `sinks.answers.topic`."""

    def __init__(
        self,
        node: yaml.Node,
        path: str,
        file: str,
        environment: Mapping[str, str],
        key: yaml.Node | None = None,
    ) -> None:
        self._node = node
        self._key = key or node
        self._file = file
        self._environment = environment
        self.path = path

    @property
    def spot(self) -> Spot:
        """The place where it begins."""
        mark = self._node.start_mark
        return Spot(self._file, mark.line + 1, mark.column + 1)

    @property
    def key_spot(self) -> Spot:
        """The place of its key, if it has one."""
        mark = self._key.start_mark
        return Spot(self._file, mark.line + 1, mark.column + 1)

    def spot_inside(self, line: int, position: int) -> Spot:
        """Return the place of a character of a text, given its line (from 1) and position (from 0) in it."""
        mark = self._node.start_mark
        style = getattr(self._node, "style", None)
        if style == "|":
            return Spot(self._file, mark.line + 1 + line, self._block_indent() + position + 1)
        if line == 1 and style != ">":
            return Spot(self._file, mark.line + 1, mark.column + (1 if style else 0) + position + 1)
        return self.spot

    def table(self, findings: Findings) -> dict[str, "DocumentPart"]:
        """Return the parts by their keys, in the order of the file; noted and empty if it is no mapping."""
        if not isinstance(self._node, yaml.MappingNode):
            findings.add(self, f"this is {_kind(self._node)}; it is a mapping of names to values")
            return {}
        parts: dict[str, DocumentPart] = {}
        for key, value in self._node.value:
            name = str(key.value)
            path = f"{self.path}.{name}" if self.path else name
            inner = DocumentPart(value, path, self._file, self._environment, key)
            if name in parts:
                findings.add(inner, "is here twice", inner.key_spot)
            parts[name] = inner
        return parts

    def fields(self, known: Iterable[str], findings: Findings) -> dict[str, "DocumentPart"]:
        """Return the parts by their keys, and note each key that is not known, with the nearest."""
        names = list(known)
        parts = self.table(findings)
        for name in [name for name in parts if name not in names]:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
            part = parts.pop(name)
            findings.add(part, f"there is no such key; {hint}", part.key_spot)
        return parts

    def text(self, findings: Findings) -> str:
        """Return a single value as it is written; noted and empty if it is none."""
        if not isinstance(self._node, yaml.ScalarNode):
            findings.add(self, f"this is {_kind(self._node)}; it is a single value")
            return ""
        text = self._filled(str(self._node.value), findings)
        if not text.strip():
            findings.add(self, "there is no value; write one, or leave the key out")
        return text

    def option(self, findings: Findings) -> str:
        """Return any value as Spark takes options: text as it is, lists with commas, mappings as JSON."""
        if isinstance(self._node, yaml.ScalarNode):
            return self.text(findings)
        value: Any = yaml.safe_load(yaml.serialize(self._node))
        if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
            return self._filled(",".join(map(str, value)), findings)
        return self._filled(json.dumps(value), findings)

    def texts(self, findings: Findings) -> list[str]:
        """Return a list of values, or one value as a list of one."""
        if isinstance(self._node, yaml.SequenceNode):
            parts = [
                DocumentPart(node, f"{self.path}[{at}]", self._file, self._environment)
                for at, node in enumerate(self._node.value)
            ]
            return [part.text(findings) for part in parts]
        return [one.strip() for one in self.text(findings).split(",") if one.strip()]

    def _filled(self, text: str, findings: Findings) -> str:
        def fill(found: re.Match[str]) -> str:
            value = self._environment.get(found[1], found[2])
            if value is None:
                findings.add(
                    self, f"the variable {found[1]} is not set; set it, or write ${{{found[1]}:-value}}"
                )
            return value or ""

        return _VARIABLE.sub(fill, text)

    def _block_indent(self) -> int:
        lines = self._node.start_mark.buffer
        if lines is None:
            return 0
        text = lines.rstrip("\0").splitlines()[self._node.start_mark.line + 1 :]
        return next((len(line) - len(line.lstrip()) for line in text if line.strip()), 0)


def read_document(path: Path, environment: Mapping[str, str], findings: Findings) -> DocumentPart | None:
    """Return the top of a YAML file; noted, and None, when it cannot be read as YAML."""
    try:
        # From a text and not from a file: only then do the marks keep the lines.
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        spot = Spot(str(path), mark.line + 1, mark.column + 1) if mark else Spot(str(path))
        findings.all.append(DocumentFinding(spot, "", f"this is no YAML: {error.problem or error.context}"))
        return None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        findings.all.append(DocumentFinding(Spot(str(path)), "", f"this is no YAML: {error}"))
        return None
    if node is None:
        findings.all.append(
            DocumentFinding(
                Spot(str(path)),
                "",
                f"the file is empty; remove it, and `pyromq pipeline init {path}` writes one",
            )
        )
        return None
    return DocumentPart(node, "", str(path), environment)


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else f"the value {node.value!r}"
