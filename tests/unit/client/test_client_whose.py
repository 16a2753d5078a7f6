"""Whose a topic or a group is."""

from pyromq.system_names import is_users_group, is_users_topic


def test_only_applications_topics_are_theirs() -> None:
    names = [
        "orders",
        "%RETRY%readers",
        "%DLQ%readers",
        "RMQ_SYS_TRACE_TOPIC",
        "TBW102",
        "rmq_sys_staged",
        "SCHEDULE_TOPIC_XXXX",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "OFFSET_MOVED_EVENT",
        "BenchmarkTest",
        "DefaultCluster_REPLY_TOPIC",
        "SELF_TEST_TOPIC",
    ]
    assert [name for name in names if is_users_topic(name)] == ["orders"]


def test_only_applications_groups_are_theirs() -> None:
    names = ["billing", "TOOLS_CONSUMER", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS", "SELF_TEST_C_GROUP"]
    assert [name for name in names if is_users_group(name)] == ["billing"]
