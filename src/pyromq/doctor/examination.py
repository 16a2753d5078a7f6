"""One examination: the survey that the chosen checks need, and what they find in it."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Tell, tell_nobody
from pyromq.doctor.checks import CHECKS, PRODUCTION
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.checks.opening_check import unseen
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Scope, Survey
from pyromq.doctor.survey_rounds import first_round, second_round
from pyromq.errors import ConfigError
from pyromq.system_names import is_users_group

#: Seconds between tidings while the doctor watches.
_TICK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The findings of an examination, the worst first, and the number of things examined."""

    checks: tuple[Check, ...]
    survey: Survey
    findings: tuple[Finding, ...]
    #: How much of each kind was looked at.
    checked: dict[str, int] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether nothing was found but notes."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """Return how many findings are that bad."""
        return sum(finding.severity is severity for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "well": self.is_well,
            "findings": [finding.as_json() for finding in self.findings],
            "checked": self.checked,
            # Questions go out side by side: their order is chance.
            "could_not": sorted(self.survey.could_not),
        }


def chosen_checks(
    only: Sequence[str] = (), skip: Sequence[str] = (), *, for_production: bool = False
) -> tuple[Check, ...]:
    """Return these checks only, or all, but for some; raise ConfigError for a name that is none."""
    checks = (*CHECKS, *PRODUCTION) if for_production else CHECKS
    names = [check.name for check in checks]
    for name in (*only, *skip):
        if name in {check.name for check in PRODUCTION} and not for_production:
            raise ConfigError(f"check {name!r} is one for production: add --production")
        if name not in names:
            raise ConfigError(f"there is no check {name!r}; there are {', '.join(names)}")
    chosen = tuple(check for check in checks if (not only or check.name in only) and check.name not in skip)
    if not chosen:
        raise ConfigError("no check is left: --only and --skip name the same ones")
    return chosen


async def examine(
    asker: Asker,
    scope: Scope | None = None,
    checks: Sequence[Check] = CHECKS,
    tell: Tell = tell_nobody,
) -> HealthReport:
    """Take a survey of a cluster and run checks on it; raise NetworkError if no name server answers."""
    survey = Survey(scope or Scope())
    needs = SurveyPart.CLUSTER
    for check in checks:
        needs |= check.needs
    if survey.scope.groups:
        # The topics of the scope follow from its groups.
        needs |= SurveyPart.GROUPS
    watch_s = survey.scope.watch_s
    await first_round(asker, survey, tell, with_groups=SurveyPart.GROUPS in needs)
    if SurveyPart.MOTION in needs:
        await _watch(watch_s, tell)
        await second_round(asker, survey, tell, with_groups=SurveyPart.GROUPS in needs and watch_s > 0)
    if any(check in PRODUCTION for check in checks):
        survey.could_not += unseen(survey)
    return report_of(survey, checks, needs)


def report_of(survey: Survey, checks: Sequence[Check], needs: SurveyPart) -> HealthReport:
    """Return what checks find in a survey."""
    # The order of the checks stays within a severity.
    findings = sorted(
        (finding for check in checks for finding in check.findings(survey)),
        key=lambda finding: finding.severity.rank,
    )
    checked = {
        "checks": len(checks),
        "name_servers": len(survey.name_servers),
        "brokers": len(survey.brokers),
        "topics": len(survey.users_topics),
    }
    if SurveyPart.GROUPS in needs:
        known = set(filter(is_users_group, {*survey.group_configs, *survey.groups.seen}))
        meant = survey.groups.seen if survey.scope.topics else known
        checked["groups"] = len(survey.scope.groups or meant)
    return HealthReport(tuple(checks), survey, tuple(findings), checked)


async def _watch(seconds: float, tell: Tell) -> None:
    ticks = math.ceil(seconds / _TICK_S)
    for tick in range(ticks):
        tell("what moves", tick, ticks)
        await asyncio.sleep(seconds / ticks)
