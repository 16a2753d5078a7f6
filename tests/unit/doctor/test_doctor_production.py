"""The checks for production: each turns red where something is missing, and none does where all is well."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pyromq.client.observation.snapshot import BrokerSnapshot, ClusterSnapshot, NameServerSnapshot
from pyromq.doctor.checks import CHECKS, PRODUCTION
from pyromq.doctor.checks.opening_check import unseen
from pyromq.doctor.examination import chosen_checks
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.survey import Scope, Survey
from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import GroupProgress
from pyromq.wire.bodies.topic_bodies import TopicConfig

NOW_MS = 1_700_000_000_000
DAY_MS = 24 * 3_600_000
#: Settings of a broker of ours as production wants them.
GOOD = {
    "heldPullsMax": "100000",
    "flushDiskType": "ASYNC_FLUSH",
    "brokerRole": "SYNC_MASTER",
    "aclEnable": "true",
    "tlsServerCertPath": "/etc/pyromq/server.pem",
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
    "metricsExporterType": "PROM",
    "fileReservedTime": "72",
    "diskMaxUsedSpaceRatio": "75",
}
#: A log that grew by a gibibyte in a day, on a disk of a hundred.
FIGURES = {
    "brokerVersionDesc": "V4_9_8",
    "pyromqVersion": "1.0",
    "commitLogMinOffset": "0",
    "commitLogMaxOffset": str(2**30),
    "earliestMessageTimeStamp": str(NOW_MS - DAY_MS),
    "commitLogDirCapacity": "Total : 100.0 GiB, Free : 90.0 GiB.",
}
#: Apache's brokers tell neither TLS nor metrics.
OURS_ONLY = ("heldPullsMax", "tlsServerCertPath", "metricsExporterType")


def broker(broker_id: int = 0, host: str = "10.0.0.5", **settings: str) -> BrokerSnapshot:
    return BrokerSnapshot(
        "DefaultCluster",
        "broker-a",
        broker_id,
        f"{host}:{10_911 + broker_id}",
        figures=FIGURES,
        settings={**GOOD, **({"brokerRole": "SLAVE"} if broker_id else {}), **settings},
        answered_at_ms=NOW_MS,
    )


def survey_of(
    *brokers: BrokerSnapshot,
    name_servers: Iterable[str] = ("10.0.0.5:9876", "10.0.0.6:9876"),
    topics: dict[str, TopicConfig] | None = None,
) -> Survey:
    return Survey(
        before=ClusterSnapshot(
            name_servers=list(map(NameServerSnapshot, name_servers)),
            brokers=list(brokers or (broker(), broker(1))),
            topics={name: {"broker-a": config} for name, config in (topics or {}).items()},
        )
    )


def found(survey: Survey) -> list[Finding]:
    """Return what all checks for production find."""
    return [finding for check in PRODUCTION for finding in check.findings(survey)]


def only(survey: Survey, name: str) -> Finding:
    """Return the only finding, which is this check's."""
    (finding,) = found(survey)
    assert finding.check == name
    assert finding.why
    assert finding.do
    return finding


def test_a_cluster_as_production_wants_it_is_well() -> None:
    topics = {"orders": TopicConfig(topic_name="orders", read_queue_nums=8, write_queue_nums=8)}

    assert found(survey_of(topics=topics)) == []
    assert list(unseen(survey_of())) == []


def test_a_master_that_acknowledges_what_one_crash_loses_is_found() -> None:
    alone = broker(brokerRole="ASYNC_MASTER")

    finding = only(survey_of(alone, broker(1)), "durability")

    assert finding.severity is Severity.WARNING
    assert "(ASYNC_FLUSH, ASYNC_MASTER)" in finding.message


@pytest.mark.parametrize(
    "settings",
    [
        {"brokerRole": "ASYNC_MASTER", "flushDiskType": "SYNC_FLUSH"},
        {"brokerRole": "SYNC_MASTER", "flushDiskType": "ASYNC_FLUSH"},
        {"brokerRole": "ASYNC_MASTER", "failover": "http://etcd:2379", "inSyncReplicas": "2"},
    ],
)
def test_a_disk_or_a_replica_that_is_waited_for_is_enough(settings: dict[str, str]) -> None:
    assert found(survey_of(broker(**settings), broker(1))) == []


def test_failover_without_a_replica_that_is_waited_for_is_not_enough() -> None:
    settings = {"brokerRole": "ASYNC_MASTER", "failover": "http://etcd:2379", "inSyncReplicas": "1"}

    only(survey_of(broker(**settings), broker(1)), "durability")


def test_one_name_server_is_found() -> None:
    finding = only(survey_of(name_servers=["10.0.0.5:9876"]), "spares")

    assert "one name server only, 10.0.0.5:9876" in finding.message


def test_a_master_without_a_replica_is_found_and_more_so_if_it_is_the_only_broker() -> None:
    other = replace(broker(host="10.0.0.7"), broker_name="broker-b")

    single = only(survey_of(broker()), "spares")
    among_others = only(survey_of(broker(), broker(1), other), "spares")

    assert "there is no other broker" in single.message
    assert among_others.subject == "broker-b"
    assert "no other broker" not in among_others.message


def test_a_disk_that_what_is_kept_overflows_is_found_with_the_time_that_fits() -> None:
    small = replace(broker(), figures={**FIGURES, "commitLogDirCapacity": "Total : 2.0 GiB, Free : 1.0 GiB."})

    finding = only(survey_of(small, broker(1)), "room")

    # Three days of a gibibyte each, and three quarters of two gibibytes: a day and a half.
    assert "takes 3.0 GiB" in finding.message
    assert "has room for 1.5 GiB" in finding.message
    assert "fileReservedTime 36 -n" in finding.do


@pytest.mark.parametrize(
    "figures",
    [
        {"earliestMessageTimeStamp": str(NOW_MS - 60_000)},
        {"earliestMessageTimeStamp": "-1"},
        {"commitLogDirCapacity": "somewhat large"},
        {"commitLogMaxOffset": "0"},
    ],
)
def test_nothing_is_said_of_a_disk_whose_rate_or_size_is_not_known(figures: dict[str, str]) -> None:
    tiny = {**FIGURES, "commitLogDirCapacity": "Total : 1.0 KiB, Free : 1.0 KiB."}

    assert found(survey_of(replace(broker(), figures={**tiny, **figures}), broker(1))) == []


@pytest.mark.parametrize(
    ("settings", "check", "said"),
    [
        ({"aclEnable": "false"}, "access", "no access control"),
        ({"tlsServerCertPath": ""}, "access", "no TLS"),
        ({"autoCreateTopicEnable": "true"}, "auto-create", "makes a topic at its first send"),
        ({"metricsExporterType": "DISABLE"}, "metrics", "no metrics of broker-a"),
    ],
)
def test_a_setting_that_leaves_something_open_is_found(
    settings: dict[str, str], check: str, said: str
) -> None:
    finding = only(survey_of(broker(**settings), broker(1)), check)

    assert finding.severity is Severity.WARNING
    assert finding.subject == "broker-a"
    assert said in finding.message


def test_a_group_that_is_made_at_its_first_use_is_a_note() -> None:
    survey = survey_of(broker(autoCreateSubscriptionGroup="true"), broker(1))

    assert only(survey, "auto-create").severity is Severity.NOTE


def test_a_loopback_address_is_found_and_needs_neither_accounts_nor_tls() -> None:
    here = [broker(at, "127.0.0.1", aclEnable="false", tlsServerCertPath="") for at in (0, 1)]

    finding = only(survey_of(*here), "advertised")

    assert "127.0.0.1:10911, 127.0.0.1:10912" in finding.message


def test_brokers_of_different_versions_are_found() -> None:
    newer = replace(broker(1), figures={**FIGURES, "pyromqVersion": "1.1"})

    finding = only(survey_of(broker(), newer), "versions")

    assert "V4_9_8, PyroMQ 1.0: broker-a; V4_9_8, PyroMQ 1.1: broker-a:1" in finding.message


def test_a_topic_with_one_queue_is_a_note() -> None:
    topics = {
        "narrow": TopicConfig(topic_name="narrow", read_queue_nums=1, write_queue_nums=1),
        "wide": TopicConfig(topic_name="wide", read_queue_nums=2, write_queue_nums=2),
    }

    finding = only(survey_of(topics=topics), "narrow")

    assert (finding.severity, finding.facts["topics"]) == (Severity.NOTE, ["narrow"])


def test_dead_letters_that_no_group_reads_are_found_until_one_does() -> None:
    survey = survey_of(topics={"%DLQ%billing": TopicConfig(topic_name="%DLQ%billing", read_queue_nums=1)})

    assert "billing has dead letters that no group reads" in only(survey, "unread-letters").message
    for scope in (Scope(groups=("audit",)), Scope(topics=("orders",))):
        survey.scope = scope
        assert found(survey) == []
    survey.scope = Scope()
    survey.groups.seen["undertakers"] = GroupSeen("undertakers")
    assert found(survey)
    queue = MessageQueue("%DLQ%billing", "broker-a", 0)
    survey.groups.seen["undertakers"].before.progress[queue] = GroupProgress(
        broker_offset=1, consumer_offset=0
    )
    assert found(survey) == []


def test_what_an_apache_broker_does_not_tell_is_no_finding_and_is_said() -> None:
    settings = {key: value for key, value in GOOD.items() if key not in OURS_ONLY}
    apaches = [replace(broker(at), settings=settings) for at in (0, 1)]

    assert found(survey_of(*apaches)) == []
    tls, watched = unseen(survey_of(*apaches))
    assert "broker-a, broker-a:1 speak TLS" in tls
    assert "no metrics of their own" in watched


def test_a_broker_that_does_not_tell_its_settings_is_judged_by_none() -> None:
    mute = [replace(broker(at), settings={}, figures={}) for at in (0, 1)]

    assert found(survey_of(*mute)) == []


def test_checks_for_production_are_made_when_asked_for() -> None:
    assert chosen_checks() == CHECKS
    assert chosen_checks(for_production=True) == (*CHECKS, *PRODUCTION)
    assert [one.name for one in chosen_checks(["spares"], for_production=True)] == ["spares"]
    with pytest.raises(ConfigError, match="add --production"):
        chosen_checks(["spares"])
