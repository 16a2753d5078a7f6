"""Whose a topic or a group is."""

import pytest

from pyromq import system_names
from pyromq.system_names import is_system_group, is_users_group, is_users_topic


@pytest.mark.parametrize(
    "topic",
    [
        *system_names.SYSTEM_TOPICS,
        *system_names.BROKERS_OWN,
        system_names.reply_topic("DefaultCluster"),
        "rmq_sys_anything",
        "%RETRY%payers",
        "%DLQ%payers",
    ],
)
def test_the_systems_topics_are_no_users(topic: str) -> None:
    assert not is_users_topic(topic)


@pytest.mark.parametrize("topic", ["orders", "TBW1023", "RMQ-SYS", "schedule", "reply_topic_of_ours"])
def test_a_name_that_only_resembles_one_is_a_users(topic: str) -> None:
    assert is_users_topic(topic)


@pytest.mark.parametrize("group", ["TOOLS_CONSUMER", system_names.TRANSACTION_GROUP, "CID_ONSAPI_OWNER"])
def test_the_systems_groups_are_no_users(group: str) -> None:
    assert is_system_group(group)
    assert is_users_group(f"my-{group}")
