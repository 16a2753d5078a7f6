"""The blocks of a page of the documentation: commands, programs, settings, and what commands print.

A block is fenced, or indented by four spaces. A comment before it may say who runs it (`<!-- run: short -->`,
see `howto.py`), or why nobody can (`<!-- not run: a drawing -->`). What kind a block is its language says, or
its text.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_RUN = re.compile(r"<!-- run: (.*?) -->")
_NOT_RUN = re.compile(r"<!-- not run: (.*?) -->")
_PROGRAMS = re.compile(
    r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:pyromq|mqadmin|pip|python|make|systemctl|etcd|sudo|kill|\.venv/\S+)\b"
)
_PYTHON = re.compile(
    r"^(?:from \S+ import |import |with |def |class |\w+ = |\w+(?:\.\w+)+[(,])", re.MULTILINE
)
#: Languages of programs that only their toolchains can read.
FOREIGN = ("java", "go", "javascript", "rust")
_SETTING = re.compile(r"^\w+=\S")


@dataclass(frozen=True, slots=True)
class PageBlock:
    """A block, or a part of one: a command and, behind an empty line, what it prints are two."""

    page: Path
    line: int
    #: shell, python, yaml, json, settings, output, foreign
    kind: str
    text: str
    #: When a test types it, as its comment says; empty if none does.
    when: str = ""
    #: Why nobody runs it, as its comment says.
    reason: str = ""

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.page.name}:{self.line}"


def page_blocks(page: Path) -> list[PageBlock]:
    """Return the blocks of a page, in order."""
    lines = page.read_text().splitlines()
    found: list[PageBlock] = []
    at = 0
    while at < len(lines):
        end = _end_of(lines, at)
        if end == at:
            at += 1
            continue
        is_fence = lines[at].startswith("```")
        inner = lines[at + 1 : end - 1] if is_fence else lines[at:end]
        language = lines[at][3:].strip() if is_fence else ""
        text = textwrap.dedent("\n".join(inner)).rstrip("\n")
        block = PageBlock(page, at + 1, "", text, **_said_before(lines, at))
        found += _parts(block, language)
        at = end
    return found


def _end_of(lines: list[str], at: int) -> int:
    """Return the line behind a block that begins at a line; the line itself if none does."""
    if lines[at].startswith("```"):
        return next(end for end in range(at + 1, len(lines)) if lines[end].startswith("```")) + 1
    is_code = lines[at].startswith("    ") and at > 0 and not lines[at - 1].strip()
    if not is_code or _is_of_a_list(lines, at):
        return at
    end = at
    while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def _is_of_a_list(lines: list[str], at: int) -> bool:
    before = [line for line in lines[:at] if line.strip()]
    return bool(before) and bool(re.match(r"(?:[-*]|\d+\.) ", before[-1]))


def _said_before(lines: list[str], at: int) -> dict[str, str]:
    before = next((line for line in reversed(lines[max(0, at - 2) : at]) if line.strip()), "")
    run, not_run = _RUN.search(before), _NOT_RUN.search(before)
    return {"when": run[1] if run else "", "reason": not_run[1] if not_run else ""}


def _parts(block: PageBlock, language: str) -> Iterator[PageBlock]:
    if language in FOREIGN or block.when.startswith("SDK for "):
        yield replace(block, kind="foreign")
    elif language in ("python", "yaml", "sh"):
        yield replace(block, kind="shell" if language == "sh" else language)
    elif _PROGRAMS.match(block.text) is not None:
        command, _, output = block.text.partition("\n\n")
        if block.text.startswith("$ "):
            command, _, output = block.text[2:].partition("\n")
        elif _PROGRAMS.match(output) is not None:
            command, output = block.text, ""
        yield replace(block, kind="shell", text=command)
        if output:
            yield replace(block, kind="output", text=output)
    else:
        yield replace(block, kind=_guessed(block.text))


def _guessed(text: str) -> str:
    try:
        json.loads(text)
    except ValueError:
        pass
    else:
        return "json"
    if all(_SETTING.match(line) for line in text.splitlines()):
        return "settings"
    if re.match(r"\w+:$", text.splitlines()[0]):
        return "yaml"
    return "python" if _PYTHON.match(text) else "output"
