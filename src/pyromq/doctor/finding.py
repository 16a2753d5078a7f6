"""A finding: the problem, its consequence, and the next step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """The severity of a finding; the worst first.

    A problem hurts users now, a warning will, or hides something that does. A note is only worth knowing.
    """

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """Its place, the worst being 0."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    severity: Severity
    #: The subject, such as "broker-a", "topic orders" or "group billing".
    subject: str
    #: What is wrong, with the names and the numbers.
    message: str
    #: What it means for users.
    why: str
    #: The next step, best as a command that can be pasted; further lines are further steps.
    do: str
    #: The same for programs: only what JSON knows.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Lines that are shown as they are, such as a stack.
    shown: tuple[str, ...] = ()
    #: The name of the check that found it; `Check.findings` sets it.
    check: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "check": self.check,
            "severity": self.severity.value,
            "subject": self.subject,
            "message": self.message,
            "why": self.why,
            "do": self.do,
            "facts": dict(self.facts),
        }
