"""The progress of a streaming query: Spark's report of a batch, in the numbers that people ask for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch that a sink has taken; `lag` is how many messages waited behind it, where that is known."""

    sink: str
    batch: int
    rows: int
    seconds: float
    lag: int | None

    @property
    def rate(self) -> float:
        """Rows a second, of this batch."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


def read_progress(sink: str, report: Mapping[str, Any]) -> BatchDone:
    """Return Spark's report of a batch.

    Behind Spark Connect it has no count of rows; then the offsets tell how many messages were read.
    """
    sources = report.get("sources") or [{}]
    begin, end = _offsets(sources[0], "startOffset"), _offsets(sources[0], "endOffset")
    rows = report.get("numInputRows")
    if rows is None:
        rows = sum(max(0, at - begin.get(queue, 0)) for queue, at in end.items())
    latest = _offsets(sources[0], "latestOffset")
    lag = sum(max(0, at - end.get(queue, 0)) for queue, at in latest.items()) if latest else None
    seconds = (
        report.get("batchDuration") or report.get("durationMs", {}).get("triggerExecution") or 0
    ) / 1_000
    return BatchDone(sink, int(report["batchId"]), int(rows), seconds, lag)


def _offsets(source: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return the queues' offsets; Spark gives them as a text, or read already."""
    kept = source.get(name)
    if isinstance(kept, str):
        try:
            kept = json.loads(kept)
        except ValueError:
            return {}
    queues = kept.get("q") if isinstance(kept, Mapping) else None
    return {str(queue): int(at) for queue, at in queues.items()} if isinstance(queues, Mapping) else {}
