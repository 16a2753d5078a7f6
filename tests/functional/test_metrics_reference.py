"""The page of metrics, its documentation and the dashboard say the same; and what `promtool` would check."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from metrics_page import Described, described, described_slave, families, page_text

from pyromq import Message, aio
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.net.metrics import MetricsPage
from pyromq.release import VERSION
from pyromq.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "pyromq.json"
ROW = re.compile(r"\| `(\w+)` \| (gauge|counter|histogram) \| (.*?) ?\| (.*) \|")
PROCESS = re.compile(r"process_\w+")
#: What `promtool check metrics` complains about in names: units that are not the base ones.
BAD_UNITS = ("milliseconds", "minutes", "hours", "kilobytes", "megabytes", "percent", "_ms", "_secs", "_kb")


@pytest.fixture
async def observed(tmp_path: Path) -> AsyncIterator[Cluster]:
    namesrv = NamesrvSettings(metrics_exporter_type="PROM", metrics_prom_exporter_port=0)  # type: ignore[arg-type]
    async with Cluster(
        data_dir=tmp_path,
        namesrv=namesrv,
        metrics_exporter_type="PROM",
        metrics_prom_exporter_port=0,
        flush_disk_type="SYNC_FLUSH",
    ) as cluster:
        yield cluster


@pytest.fixture
async def pages(observed: Cluster) -> list[MetricsPage]:
    found = [observed.brokers["broker-a"].metrics, observed.name_server.metrics]
    return [page for page in found if page is not None]


async def some_traffic(cluster: Cluster) -> None:
    async with aio.Producer("senders", cluster.namesrv_address) as producer:
        for _ in range(8):
            await producer.send(Message("orders", bytes(1_000)))
    async with aio.PullConsumer("readers", cluster.namesrv_address) as consumer:
        for queue in await consumer.queues("orders"):
            await consumer.pull(queue, 0)
            await consumer.commit(queue, 1)


def documented() -> list[Described]:
    rows = [match for line in REFERENCE.read_text().splitlines() if (match := ROW.fullmatch(line))]
    return [
        Described(name, kind, about, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, about in (row.groups() for row in rows)
    ]


async def test_every_metric_is_documented_as_it_is(pages: list[MetricsPage]) -> None:
    there = [one for page in pages for one in described(page).values()]
    there += described_slave().values()

    assert sorted(documented(), key=str) == sorted(there, key=str)


async def test_a_page_tells_which_version_of_pyromq_runs(pages: list[MetricsPage]) -> None:
    assert pages
    for page in pages:
        (line,) = [
            line for line in (await page_text(page)).splitlines() if line.startswith("pyromq_build_info{")
        ]
        assert f'version="{VERSION}"' in line
        assert line.endswith(" 1.0")


async def test_the_process_metrics_are_documented(pages: list[MetricsPage]) -> None:
    assert pages
    for page in pages:
        there = {name for name in families(await page_text(page)) if PROCESS.fullmatch(name)}
        assert there == set(PROCESS.findall(REFERENCE.read_text()))


async def test_a_page_reads_back_and_keeps_the_rules_of_names(
    observed: Cluster, pages: list[MetricsPage]
) -> None:
    await some_traffic(observed)
    assert pages
    for page in pages:
        found = families(await page_text(page))
        assert found
        for name, family in found.items():
            assert family.documentation, name
            assert re.fullmatch(r"(rocketmq|pyromq|process)_[a-z0-9_]*[a-z0-9]", name), name
            assert not any(unit in name for unit in BAD_UNITS), name
            assert name.endswith("_total") == (family.type == "counter"), name
            series = [(one.name, *sorted(one.labels.items())) for one in family.samples]
            assert len(series) == len(set(series)), f"{name} has a value twice"


async def test_traffic_and_lag_are_counted_by_topic_and_group(observed: Cluster) -> None:
    await some_traffic(observed)
    seen = families(await page_text(observed.brokers["broker-a"].metrics))

    def only(name: str) -> tuple[dict[str, str], float]:
        (sample,) = [one for one in seen[name].samples if one.labels.get("topic") == "orders"]
        return sample.labels, sample.value

    assert only("rocketmq_messages_in_total")[1] == 8
    assert only("rocketmq_throughput_in_total")[1] > 8_000
    labels, count = only("rocketmq_messages_out_total")
    assert (labels["consumer_group"], labels["is_retry"], labels["is_system"], count) == (
        "readers",
        "false",
        "false",
        8,
    )
    assert only("rocketmq_consumer_lag_messages")[1] == 4
    assert only("rocketmq_consumer_lag_latency")[1] > 0


async def test_what_is_in_flight_and_what_is_ready_add_up_to_the_lag(observed: Cluster) -> None:
    """The first pull takes the long way, and the second is the kernel's where there is one."""
    async with aio.Producer("senders", observed.namesrv_address) as producer:
        await producer.send(Message("orders", b"first"))
        queue = (await producer.queues("orders"))[0]
        for _ in range(9):
            await producer.send(Message("orders", b"next"), queue=queue)
    async with aio.PullConsumer("readers", observed.namesrv_address) as consumer:
        await consumer.commit(queue, 0)

        async def parts() -> list[float]:
            seen = families(await page_text(observed.brokers["broker-a"].metrics))
            names = ("inflight_messages", "ready_messages", "lag_messages", "queueing_latency")
            return [
                sample.value
                for name in names
                for sample in seen[f"rocketmq_consumer_{name}"].samples
                if sample.labels["topic"] == "orders" and sample.labels["consumer_group"] == "readers"
            ]

        in_flight, ready, lag, waits_ms = await parts()
        assert (in_flight, ready) == (0, lag)
        assert waits_ms > 0

        offset = 0
        for count in (2, 3):
            pulled = await consumer.pull(queue, offset, count=count)
            offset = pulled.next_offset
            assert (await parts())[:3] == [offset, lag - offset, lag]
        await consumer.commit(queue, 4)
        assert (await parts())[:3] == [offset - 4, lag - offset, lag - 4]


async def test_times_and_sizes_are_spread(observed: Cluster) -> None:
    await some_traffic(observed)
    seen = families(await page_text(observed.brokers["broker-a"].metrics))

    def count(name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in seen[name].samples
            if sample.name == f"{name}_count" and labels.items() <= sample.labels.items()
        )

    assert count("rocketmq_message_size") == 8
    assert count("rocketmq_rpc_latency", request_code="send_message_v2", response_code="success") == 8
    assert count("pyromq_sync_seconds") >= 1
    assert count("pyromq_safe_wait_seconds") >= 1


async def test_refusals_are_told_apart(observed: Cluster) -> None:
    async with aio.Admin(observed.namesrv_address) as admin:
        with pytest.raises(Exception, match="no-such-topic"):
            await admin.route("no-such-topic")
    seen = families(await page_text(observed.name_server.metrics))

    assert {
        (sample.labels["request_code"], sample.labels["response_code"])
        for sample in seen["rocketmq_rpc_latency"].samples
    } >= {("get_routeinfo_by_topic", "topic_not_exist"), ("register_broker", "success")}


async def test_a_name_server_shows_its_brokers(observed: Cluster) -> None:
    seen = families(await page_text(observed.name_server.metrics))

    (brokers,) = seen["pyromq_namesrv_brokers"].samples
    (silence,) = seen["pyromq_namesrv_broker_silence_seconds"].samples
    assert (brokers.labels["cluster"], brokers.value) == ("DefaultCluster", 1)
    assert silence.labels["address"] == observed.broker_addresses[0]


async def test_of_too_many_values_some_are_left_out_and_the_page_says_so(tmp_path: Path) -> None:
    async with Cluster(
        data_dir=tmp_path,
        metrics_exporter_type="PROM",
        metrics_prom_exporter_port=0,
        metrics_otel_cardinality_limit=5,
    ) as cluster:
        seen = families(await page_text(cluster.brokers["broker-a"].metrics))

    assert len(seen["pyromq_delayed_messages"].samples) == 5
    (left_out,) = seen["pyromq_metrics_left_out"].samples
    assert (left_out.labels["metric"], left_out.value) == ("pyromq_delayed_messages", 13)


async def test_every_query_of_the_dashboard_names_a_metric_that_there_is(pages: list[MetricsPage]) -> None:
    names = {name for page in pages for name in families(await page_text(page))} | set(described_slave())
    queries = list(_queries(json.loads(DASHBOARD.read_text())))

    assert len(queries) > 20
    for query in queries:
        used = set(re.findall(r"\b(?:rocketmq|pyromq|process)_\w+", query))
        assert used, query
        for name in used:
            assert name in names or re.sub(r"_(bucket|sum|count)$", "", name) in names, query


def test_the_dashboard_has_no_two_panels_with_one_id_and_a_title_each() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] for panel in panels)


def _queries(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node["expr"]] if isinstance(node.get("expr"), str) else []
        own += (
            [node["query"]] if isinstance(node.get("query"), str) and "label_values" in node["query"] else []
        )
        return [*own, *(query for value in node.values() for query in _queries(value))]
    if isinstance(node, list):
        return [query for value in node for query in _queries(value)]
    return []
