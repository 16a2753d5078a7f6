"""Write deploy/grafana/pyromq.json, a dashboard for Grafana 9 and newer.

A panel is a line here; the JSON around it is Grafana's. Run it after a change: `python tools/gen_grafana.py`.
"""

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "deploy" / "grafana" / "pyromq.json"
NODE = 'cluster=~"$cluster",node_id=~"$node"'
TOPIC = f'{NODE},topic=~"$topic"'
GROUP = f'{NODE},consumer_group=~"$group"'
ALL_OF_GROUPS = "sum by (consumer_group, topic)"
OF_GROUPS = "max by (consumer_group, topic)"
SIZES = f"sum by (le) (rate(rocketmq_message_size_bucket{{{NODE}}}[5m]))"
SOURCE = {"type": "prometheus", "uid": "${source}"}

#: Title, unit, and (query, legend) of each panel, by rows; a width of 24 is a whole row.
ROWS: list[tuple[str, list[tuple[str, str, int, list[tuple[str, str]]]]]] = [
    (
        "Cluster",
        [
            ("Messages in", "mps", 4, [(f"sum(rate(rocketmq_messages_in_total{{{NODE}}}[1m]))", "")]),
            ("Messages out", "mps", 4, [(f"sum(rate(rocketmq_messages_out_total{{{NODE}}}[1m]))", "")]),
            ("Lag", "short", 4, [(f"sum(rocketmq_consumer_lag_messages{{{NODE}}})", "")]),
            ("Brokers", "short", 4, [('sum(pyromq_namesrv_brokers{cluster=~"$cluster"})', "")]),
            ("Connections", "short", 4, [(f"sum(pyromq_connections{{{NODE}}})", "")]),
            ("Fullest disk", "percentunit", 4, [(f"max(pyromq_disk_used_ratio{{{NODE}}})", "")]),
        ],
    ),
    (
        "Traffic",
        [
            (
                "Messages in by topic",
                "mps",
                12,
                [
                    (
                        f"topk(10, sum by (topic) (rate(rocketmq_messages_in_total{{{TOPIC}}}[1m])))",
                        "{{topic}}",
                    )
                ],
            ),
            (
                "Messages out by group",
                "mps",
                12,
                [
                    (
                        "topk(10, sum by (consumer_group, topic) "
                        f"(rate(rocketmq_messages_out_total{{{GROUP}}}[1m])))",
                        "{{consumer_group}} {{topic}}",
                    )
                ],
            ),
            (
                "Bytes",
                "Bps",
                12,
                [
                    (
                        f"sum by (node_id) (rate(rocketmq_throughput_in_total{{{NODE}}}[1m]))",
                        "in {{node_id}}",
                    ),
                    (
                        f"sum by (node_id) (rate(rocketmq_throughput_out_total{{{NODE}}}[1m]))",
                        "out {{node_id}}",
                    ),
                ],
            ),
            (
                "Message size, median and 99 %",
                "bytes",
                12,
                [
                    (
                        f"histogram_quantile(0.5, {SIZES})",
                        "50 %",
                    ),
                    (
                        f"histogram_quantile(0.99, {SIZES})",
                        "99 %",
                    ),
                ],
            ),
        ],
    ),
    (
        "Groups",
        [
            (
                "Lag, messages",
                "short",
                12,
                [
                    (
                        f"topk(10, {ALL_OF_GROUPS} (rocketmq_consumer_lag_messages{{{GROUP}}}))",
                        "{{consumer_group}} {{topic}}",
                    )
                ],
            ),
            (
                "Lag, age of the oldest message",
                "ms",
                12,
                [
                    (
                        f"topk(10, {OF_GROUPS} (rocketmq_consumer_lag_latency{{{GROUP}}}))",
                        "{{consumer_group}} {{topic}}",
                    )
                ],
            ),
            (
                "In flight: pulled, not confirmed",
                "short",
                8,
                [
                    (
                        f"topk(10, {ALL_OF_GROUPS} (rocketmq_consumer_inflight_messages{{{GROUP}}}))",
                        "{{consumer_group}} {{topic}}",
                    )
                ],
            ),
            (
                "Ready: not pulled yet",
                "short",
                8,
                [
                    (
                        f"topk(10, {ALL_OF_GROUPS} (rocketmq_consumer_ready_messages{{{GROUP}}}))",
                        "{{consumer_group}} {{topic}}",
                    )
                ],
            ),
            (
                "Wait to be pulled",
                "ms",
                8,
                [
                    (
                        f"topk(10, {OF_GROUPS} (rocketmq_consumer_queueing_latency{{{GROUP}}}))",
                        "{{consumer_group}} {{topic}}",
                    )
                ],
            ),
            (
                "Dead letters",
                "short",
                8,
                [
                    (
                        "sum by (consumer_group) "
                        f"(increase(rocketmq_send_to_dlq_messages_total{{{GROUP}}}[10m]))",
                        "{{consumer_group}}",
                    )
                ],
            ),
            (
                "Members",
                "short",
                8,
                [
                    (
                        f"sum by (consumer_group) (rocketmq_consumer_connections{{{GROUP}}})",
                        "{{consumer_group}}",
                    )
                ],
            ),
            (
                "Members that subscribe differently",
                "short",
                8,
                [(f"pyromq_subscription_conflict_members{{{GROUP}}}", "{{consumer_group}}")],
            ),
        ],
    ),
    (
        "POP, and RocketMQ 5's SDKs",
        [
            (
                "Pops, by how they ended",
                "ops",
                8,
                [(f"sum by (result) (rate(pyromq_pops_total{{{NODE}}}[1m]))", "{{result}}")],
            ),
            (
                "Acknowledged, and come again",
                "ops",
                8,
                [
                    (f"sum by (result) (rate(pyromq_pop_acks_total{{{NODE}}}[1m]))", "{{result}}"),
                    (f"sum(rate(pyromq_pop_revives_total{{{NODE}}}[1m]))", "come again"),
                ],
            ),
            (
                "Popped and not finished",
                "short",
                8,
                [(f"sum by (node_id) (pyromq_pop_inflight_messages{{{NODE}}})", "{{node_id}}")],
            ),
            (
                "Calls of SDKs, by RPC and code",
                "reqps",
                12,
                [
                    (
                        f"topk(10, sum by (rpc, code) (rate(pyromq_grpc_calls_total{{{NODE}}}[1m])))",
                        "{{rpc}} {{code}}",
                    )
                ],
            ),
            (
                "SDKs: connections, clients, calls that are open",
                "short",
                12,
                [
                    (f"sum(pyromq_grpc_connections{{{NODE}}})", "connections"),
                    (f"sum(pyromq_grpc_clients{{{NODE}}})", "clients"),
                    (f"sum(pyromq_grpc_streams{{{NODE}}})", "open calls"),
                ],
            ),
        ],
    ),
    (
        "Times",
        [
            (
                "Requests, 99 %",
                "ms",
                12,
                [
                    (
                        "histogram_quantile(0.99, sum by (le, request_code) "
                        f'(rate(rocketmq_rpc_latency_bucket{{{NODE},is_long_polling="false"}}[5m])))',
                        "{{request_code}}",
                    )
                ],
            ),
            (
                "Requests that were refused",
                "reqps",
                12,
                [
                    (
                        "sum by (request_code, response_code) "
                        f'(rate(rocketmq_rpc_latency_count{{{NODE},response_code!="success"}}[5m]))',
                        "{{request_code}} {{response_code}}",
                    )
                ],
            ),
            (
                "Until a send is safe, 99 %",
                "s",
                12,
                [
                    (
                        "histogram_quantile(0.99, sum by (le, node_id) "
                        f"(rate(pyromq_safe_wait_seconds_bucket{{{NODE}}}[5m])))",
                        "{{node_id}}",
                    )
                ],
            ),
            (
                "Sync of the log, 99 %",
                "s",
                12,
                [
                    (
                        "histogram_quantile(0.99, sum by (le, node_id) "
                        f"(rate(pyromq_sync_seconds_bucket{{{NODE}}}[5m])))",
                        "{{node_id}}",
                    )
                ],
            ),
        ],
    ),
    (
        "Disk and replication",
        [
            ("Disk in use", "percentunit", 8, [(f"pyromq_disk_used_ratio{{{NODE}}}", "{{node_id}}")]),
            (
                "Not on disk yet",
                "bytes",
                8,
                [(f"rocketmq_storage_flush_behind_bytes{{{NODE}}}", "{{node_id}}")],
            ),
            (
                "Age of the oldest message",
                "ms",
                8,
                [(f"rocketmq_storage_message_reserve_time{{{NODE}}}", "{{node_id}}")],
            ),
            (
                "Slaves behind",
                "bytes",
                8,
                [
                    (f"pyromq_follower_lag_bytes{{{NODE}}}", "{{node_id}} {{follower}}"),
                    (f"pyromq_following_lag_bytes{{{NODE}}}", "{{node_id}}"),
                ],
            ),
            (
                "Slaves that copy",
                "short",
                8,
                [
                    (f"pyromq_followers{{{NODE}}}", "connected to {{node_id}}"),
                    (f"pyromq_diverged{{{NODE}}}", "diverged {{node_id}}"),
                ],
            ),
            ("Takes messages", "short", 8, [(f"pyromq_writable{{{NODE}}}", "{{node_id}}")]),
        ],
    ),
    (
        "Waiting, and the process",
        [
            (
                "Delayed and half messages",
                "short",
                8,
                [
                    (f"sum by (node_id) (pyromq_delayed_messages{{{NODE}}})", "delayed {{node_id}}"),
                    (f"rocketmq_half_messages{{{NODE}}}", "half {{node_id}}"),
                ],
            ),
            (
                "Connections, held pulls, requests under way",
                "short",
                8,
                [
                    (f"pyromq_connections{{{NODE}}}", "connections {{node_id}}"),
                    (f"pyromq_held_pulls{{{NODE}}}", "held pulls {{node_id}}"),
                    (f"pyromq_requests_under_way{{{NODE}}}", "under way {{node_id}}"),
                ],
            ),
            (
                "Processor and memory",
                "short",
                8,
                [
                    ("rate(process_cpu_seconds_total[1m])", "cores {{instance}}"),
                    ("process_resident_memory_bytes / 1e9", "GB {{instance}}"),
                ],
            ),
        ],
    ),
]


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for number, (title, row) in enumerate(ROWS):
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": 24, "x": 0, "y": top},
                "panels": [],
            }
        )
        top += 1
        height = 4 if number == 0 else 8
        left = 0
        for name, unit, width, targets in row:
            if left + width > 24:
                left, top = 0, top + height
            place = {"h": height, "w": width, "x": left, "y": top}
            panels.append(_panel(len(panels) + 1, name, unit, place, targets, is_number=number == 0))
            left += width
        top += height
    return {
        "uid": "pyromq",
        "title": "PyroMQ",
        "tags": ["pyromq", "rocketmq"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                _variable("cluster", "label_values(rocketmq_topic_number, cluster)"),
                _variable("node", 'label_values(rocketmq_topic_number{cluster=~"$cluster"}, node_id)'),
                _variable("topic", f"label_values(rocketmq_messages_in_total{{{NODE}}}, topic)"),
                _variable("group", f"label_values(rocketmq_consumer_lag_messages{{{NODE}}}, consumer_group)"),
            ]
        },
        "panels": panels,
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(
    number: int,
    title: str,
    unit: str,
    place: dict[str, int],
    targets: list[tuple[str, str]],
    *,
    is_number: bool,
) -> dict[str, Any]:
    return {
        "id": number,
        "type": "stat" if is_number else "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {} if is_number else {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(targets)
        ],
    }


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n")
    print(f"wrote {TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}")
