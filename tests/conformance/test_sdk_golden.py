"""What the five SDKs of 5.x said to Apache's 5.5, said to our broker: the answers are alike.

The recordings are `tools/record_sdks.py`'s; what may differ is named here, with the reason.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc_sdk import put_topic
from sdk_replay import replay

from pyromq.testing.cluster import Cluster
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig

GOLDEN = Path(__file__).parents[1] / "golden" / "sdk5"
SDKS = ("java", "python", "node", "go", "rust")
TOPICS = {
    "golden_normal": "NORMAL",
    "golden_fifo": "FIFO",
    "golden_delay": "DELAY",
    "golden_transaction": "TRANSACTION",
}

#: What differs by intent.
MEANT = (
    # What the broker notes for itself is not shown, so that properties come as they were sent.
    r"\.user_properties\.(__SHARDINGKEY|__transactionId__|TRANSACTION_CHECK_TIMES): .* None here$",
    # Ours is the place of the half message, which moves with the question; Apache's is the message's id.
    r"recover_orphaned_transaction_command\.transaction_id: ",
    # Node's SDK can read this kind of policy only.
    r"settings\.backoff_policy\.exponential_backoff: None at Apache's",
    r"settings\.backoff_policy\.customized_backoff: .* None here$",
)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(
        has_grpc=True, transaction_time_out=1_000, transaction_check_interval=1_000
    ) as cluster:
        for topic, kind in TOPICS.items():
            put_topic(cluster, topic, queues=1, kind=kind)
        [broker] = cluster.brokers.values()
        broker.groups.table.put(
            SubscriptionGroupConfig(group_name="golden_orderly", consume_message_orderly=True)
        )
        yield cluster


@pytest.mark.row("GR-34")
@pytest.mark.parametrize("name", SDKS)
async def test_the_answers_are_those_of_apache(cluster: Cluster, name: str) -> None:
    faults = await replay(cluster, GOLDEN / f"{name}.jsonl")

    assert [fault for fault in faults if not any(re.search(one, fault) for one in MEANT)] == []
