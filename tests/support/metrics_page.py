"""What servers' pages of metrics have."""

import asyncio
import urllib.request
from dataclasses import dataclass, field
from typing import cast

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from pyromq.broker.replication.client import ReplicationClient
from pyromq.broker.replication.figures import following_figures
from pyromq.net.metrics import MetricsPage


@dataclass
class Described:
    """One metric as a page describes it."""

    name: str
    kind: str
    about: str
    labels: set[str] = field(default_factory=set)


async def page_text(page: MetricsPage | None) -> str:
    assert page is not None
    return await asyncio.to_thread(_fetch, f"http://127.0.0.1:{page.port}/metrics")


def described(page: MetricsPage | None) -> dict[str, Described]:
    """What a server says of its metrics."""
    assert page is not None
    figures = [Described(one.name, one.kind.value, one.about, set(one.labels)) for one in page.figures]
    spread = [Described(one.name, "histogram", one.about, set(one.labels)) for one in page.histograms]
    return {one.name: one for one in (*figures, *spread)}


def families(text: str) -> dict[str, Metric]:
    """What a page has, by the names that its values have; prometheus-client takes «_total» off."""
    found = text_string_to_metric_families(text)
    return {f"{one.name}_total" if one.type == "counter" else one.name: one for one in found}


def described_slave() -> dict[str, Described]:
    """What only a slave's page has; nothing of it is read here."""
    figures = following_figures(cast(ReplicationClient, None))
    return {one.name: Described(one.name, one.kind.value, one.about, set(one.labels)) for one in figures}


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
        return text
