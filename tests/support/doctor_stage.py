"""`pyromq doctor` as it is typed, and its advice followed."""

import asyncio
import json
import shlex
from dataclasses import dataclass
from typing import Any

from command_walk import commands
from typer.testing import CliRunner, Result

from pyromq.cli.main import app


@dataclass(frozen=True, slots=True)
class Examined:
    """How an examination ended."""

    status: int
    report: dict[str, Any]

    @property
    def found(self) -> list[dict[str, Any]]:
        """The findings, the worst first."""
        findings: list[dict[str, Any]] = self.report["findings"]
        return findings

    @property
    def severities(self) -> dict[str, str]:
        """How bad it is, by what it is about."""
        return {finding["subject"]: finding["severity"] for finding in self.found}

    def one(self, subject: str) -> dict[str, Any]:
        """Return the only finding about something."""
        (finding,) = [finding for finding in self.found if finding["subject"] == subject]
        return finding


def with_yes(words: list[str]) -> list[str]:
    """Return the words of a command with the answer to its question, if it has one."""
    command = commands().get(" ".join(words[:2]))
    has_question = command is not None and any("--yes" in option.opts for option in command.params)
    return [*words, "--yes"] if has_question and "--yes" not in words else words


@dataclass(frozen=True, slots=True)
class DoctorStage:
    """Asks the doctor about the cluster of a name server."""

    name_server: str

    def typed(self, *words: str) -> Result:
        """Run a command."""
        return CliRunner().invoke(app, [*words, "-n", self.name_server])

    def examine(self, *words: str) -> Examined:
        """Examine the cluster; nothing is watched unless said so."""
        ended = self.typed("doctor", "--json", *([] if "--watch" in words else ["--watch", "0"]), *words)
        assert ended.exit_code in (0, 1), ended.output + repr(ended.exception)
        return Examined(ended.exit_code, json.loads(ended.stdout))

    async def aexamine(self, *words: str) -> Examined:
        """Do the same beside servers on this loop."""
        return await asyncio.to_thread(self.examine, *words)

    def follow(self, finding: dict[str, Any]) -> None:
        """Do what a finding says: each command of it, which must end well."""
        lines = [line for line in finding["do"].splitlines() if line.startswith("pyromq ")]
        assert lines, finding
        for command in lines:
            # What would be asked at a terminal is answered: a person has read the command.
            ended = CliRunner().invoke(app, with_yes(shlex.split(command)[1:]))
            assert ended.exit_code == 0, f"{command}: {ended.output}{ended.exception!r}"

    async def afollow(self, finding: dict[str, Any]) -> None:
        """Do the same beside servers on this loop."""
        await asyncio.to_thread(self.follow, finding)
