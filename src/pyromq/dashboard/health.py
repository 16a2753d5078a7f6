"""The doctor's last examination of the cluster, and the start of the next one.

An examination asks many questions and watches for some seconds, so there is one at a time, however many
pages are open. It starts when somebody asks for it, and by itself when the last one is old and a page shows
it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.clock import Clock, SystemClock
from pyromq.dashboard.failure_advice import next_step
from pyromq.dashboard.picture import Health, Picture
from pyromq.doctor.examination import examine
from pyromq.doctor.finding import Severity
from pyromq.doctor.survey import WATCH_S, Scope
from pyromq.errors import PyroError

log = logging.getLogger(__name__)

#: Milliseconds after which a report is old.
OLD_MS: Final = 5 * 60_000
#: Findings that a page shows; the rest is counted.
SHOWN_MAX: Final = 200

Shown = dict[str, Any]


class Examiner:
    """Has the cluster examined, and keeps the last report in the picture."""

    def __init__(
        self, asker: Asker, picture: Picture, *, clock: Clock | None = None, watch_s: float = WATCH_S
    ) -> None:
        self._asker = asker
        self._health = picture.health
        self._clock = clock or SystemClock()
        self._watch_s = watch_s
        self._task: asyncio.Task[None] | None = None

    def want(self) -> None:
        """Begin an examination if the last one is old: somebody looks at what it said."""
        if self._health.tried_at_ms + OLD_MS <= self._clock.now_ms():
            self.begin()

    def begin(self) -> None:
        """Begin an examination, unless one is running."""
        if self._task is None or self._task.done():
            self._health.doing = "it begins"
            self._task = asyncio.create_task(self._examine(), name="pyromq-dashboard-examiner")

    async def close(self) -> None:
        """Cancel a running examination."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _examine(self) -> None:
        health = self._health
        try:
            report = await examine(self._asker, Scope(watch_s=self._watch_s), tell=self._tell)
            health.report = report.as_json()
            health.checks = [check.title for check in report.checks]
            health.taken_at_ms = self._clock.now_ms()
            health.failure = None
        except PyroError as error:
            health.failure = (str(error), next_step(error))
        except Exception:
            # The page must not show "under way" for ever.
            log.exception("an examination of the cluster failed")
            health.failure = ("the examination failed", "The dashboard's log says more.")
        finally:
            health.doing = None
            health.tried_at_ms = self._clock.now_ms()

    def _tell(self, what: str, done: int, total: int) -> None:
        self._health.doing = f"{what}, {done} of {total}" if total > 1 else what


def health(picture: Picture, _query: Mapping[str, str]) -> Shown:
    """Return the last report, the worst first, and what is being done now."""
    found = picture.health
    findings = [] if found.report is None else found.report["findings"]
    return {
        **badge(found),
        "doing": found.doing,
        "failure": None if found.failure is None else {"error": found.failure[0], "next": found.failure[1]},
        "findings": findings[:SHOWN_MAX],
        "findingCount": len(findings),
        "checked": {} if found.report is None else found.report["checked"],
        "checks": found.checks,
        "couldNot": [] if found.report is None else found.report["could_not"],
    }


def badge(found: Health) -> Shown:
    """Return what the first page says of it: when it was, and how many findings of each kind there are."""
    findings = [] if found.report is None else found.report["findings"]
    return {
        "at": found.taken_at_ms or None,
        "isWell": None if found.report is None else found.report["well"],
        "counts": {
            kind.value: sum(1 for one in findings if one["severity"] == kind.value) for kind in Severity
        },
    }


def severity_of_dead_letters(found: Health) -> str | None:
    """Return how bad the last examination found dead letters to be; None if it found none, or not examined.

    The first page colours their number by it, so it cannot contradict Health. A dead letter that came long
    ago or was replayed stays in its topic, and is no alarm for ever.
    """
    findings = [] if found.report is None else found.report["findings"]
    # The worst is the first.
    return next((one["severity"] for one in findings if "dead_letters" in one["facts"]), None)
