"""The type of a check: a name, a title, and a pure function of the survey."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Flag, auto

from pyromq.doctor.finding import Finding
from pyromq.doctor.survey import Survey


class SurveyPart(Flag):
    """Parts of a survey that take time, and are only gathered for checks that need them."""

    CLUSTER = 0
    #: Groups: their members, what these do, how far they are.
    GROUPS = auto()
    #: What moves, looked at twice.
    MOTION = auto()


@dataclass(frozen=True, slots=True)
class Check:
    """A check for one kind of problem."""

    name: str
    title: str
    look: Callable[[Survey], Iterable[Finding]]
    needs: SurveyPart = SurveyPart.CLUSTER

    def findings(self, survey: Survey) -> Iterator[Finding]:
        """Yield what it finds, under its name."""
        for finding in self.look(survey):
            yield replace(finding, check=self.name)
