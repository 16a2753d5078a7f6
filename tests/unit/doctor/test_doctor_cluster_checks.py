"""What the cluster's checks make of surveys that are hard to provoke: old brokers, networks, many topics."""

import pytest

from pyromq.client.observation.snapshot import BrokerSnapshot, ClusterSnapshot, NameServerSnapshot
from pyromq.codes import Perm
from pyromq.doctor.checks.address_check import addresses, is_loopback
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.checks.clock_check import clocks
from pyromq.doctor.checks.disk_check import disks
from pyromq.doctor.checks.permission_check import permissions
from pyromq.doctor.checks.replica_check import replicas
from pyromq.doctor.checks.topic_check import queues, topics
from pyromq.doctor.examination import chosen_checks, report_of
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Scope, Survey
from pyromq.doctor.words import both, counted, lasted, sized, some_of
from pyromq.errors import ConfigError, NetworkError
from pyromq.wire.bodies.topic_bodies import TopicConfig

NOW_MS = 1_700_000_000_000


def broker(
    name: str = "broker-a", broker_id: int = 0, host: str = "127.0.0.1", **fields: object
) -> BrokerSnapshot:
    address = f"{host}:{10_911 + broker_id}"
    return BrokerSnapshot("DefaultCluster", name, broker_id, address, **fields)  # type: ignore[arg-type]


def survey_of(
    *brokers: BrokerSnapshot,
    name_server: str = "127.0.0.1:9876",
    topics: dict[str, dict[str, TopicConfig]] | None = None,
    later: tuple[BrokerSnapshot, ...] | None = None,
) -> Survey:
    before = ClusterSnapshot(
        name_servers=[NameServerSnapshot(name_server)], brokers=list(brokers), topics=topics or {}
    )
    return Survey(before=before, after=None if later is None else ClusterSnapshot(brokers=list(later)))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:9876", True),
        ("127.8.0.1:9876", True),
        ("localhost:9876", True),
        ("[::1]:9876", True),
        ("0.0.0.0:9876", True),
        ("10.0.0.5:9876", False),
        ("mq.example.org:9876", False),
        ("nonsense", False),
    ],
)
def test_an_address_that_leads_every_machine_to_itself_is_known(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_a_loopback_address_is_nothing_while_all_is_on_one_machine() -> None:
    assert list(addresses(survey_of(broker()))) == []


def test_a_loopback_address_is_a_warning_behind_a_name_server_on_the_network() -> None:
    survey = survey_of(broker(), name_server="10.0.0.5:9876")

    (finding,) = addresses(survey)

    assert finding.severity is Severity.WARNING
    assert "while 10.0.0.5:9876 is on the network" in finding.message


def test_the_marks_of_apaches_brokers_are_taken_as_they_are_by_default() -> None:
    apaches = broker(figures={"commitLogDiskRatio": "0.92"}, settings={"diskMaxUsedSpaceRatio": "75"})

    (finding,) = disks(survey_of(apaches))

    assert finding.severity is Severity.PROBLEM
    assert "over 90 % it takes no messages" in finding.message


def test_the_disk_of_the_queues_counts_if_it_is_fuller() -> None:
    seen = broker(figures={"commitLogDiskRatio": "0.1", "consumeQueueDiskRatio": "0.8"})

    (finding,) = disks(survey_of(seen))

    assert "with its queues is 80 % full" in finding.message


def test_a_ratio_that_is_not_known_is_nothing() -> None:
    assert list(disks(survey_of(broker(figures={"commitLogDiskRatio": "-1.0"}), broker()))) == []


@pytest.mark.parametrize(
    ("runtime", "ran_s"),
    [
        ("[ 0 days, 0 hours, 0 minutes, 7 seconds ]", 7),
        ("[ 1,203 days, 2 hours, 3 minutes, 4 seconds ]", 1203 * 86_400 + 7_384),
    ],
)
def test_a_clock_is_read_from_the_start_and_the_run_and_half_of_the_way(runtime: str, ran_s: int) -> None:
    seen = broker(
        figures={"bootTimestamp": str(NOW_MS - ran_s * 1000), "runtime": runtime},
        asked_at_ms=NOW_MS,
        answered_at_ms=NOW_MS + 1_000,
    )

    reading = seen.clock

    assert reading is not None
    # A second that is cut off and a second on the way, each halved.
    assert (reading.ahead_s, reading.error_s) == (0.0, 1.0)


def test_a_slow_answer_makes_no_clock_wrong() -> None:
    seen = broker(
        figures={"bootTimestamp": str(NOW_MS), "runtime": "[ 0 days, 0 hours, 0 minutes, 9 seconds ]"},
        asked_at_ms=NOW_MS,
        answered_at_ms=NOW_MS + 9_000,
    )

    assert list(clocks(survey_of(seen))) == []


def test_a_broker_that_does_not_say_how_long_it_runs_has_no_clock() -> None:
    assert broker(figures={"bootTimestamp": str(NOW_MS), "runtime": "long"}).clock is None


def test_a_broker_has_heard_of_all_clients_after_a_minute_and_one_that_has_is_enough() -> None:
    young = broker(figures={"runtime": "[ 0 days, 0 hours, 0 minutes, 59 seconds ]"})
    old = broker("broker-b", figures={"runtime": "[ 0 days, 0 hours, 1 minutes, 0 seconds ]"})
    mute = broker("broker-c")
    survey = survey_of(young, old, mute)

    assert survey.newcomers({"broker-a"}) == [young]
    for names in ({"broker-b"}, {"broker-a", "broker-b"}, {"broker-c"}, {"broker-gone"}):
        assert survey.newcomers(names) == []


def test_a_synchronous_master_does_not_wait_for_a_slave_that_is_far_behind() -> None:
    master = broker(
        figures={"commitLogMaxOffset": "3000"},
        settings={"brokerRole": "SYNC_MASTER", "haSlaveFallbehindMax": "1000"},
    )
    slave = broker(broker_id=1, figures={"commitLogMaxOffset": "100"})
    later = broker(broker_id=1, figures={"commitLogMaxOffset": "200"})

    (finding,) = replicas(survey_of(master, slave, later=(later,)))

    assert finding.severity is Severity.PROBLEM
    assert "is 2.7 KiB behind its master" in finding.message
    assert "sends do not wait for a slave that is so far behind" in finding.why


def test_a_slave_that_copies_what_came_meanwhile_is_not_behind() -> None:
    def pair(master_end: int, slave_end: int) -> tuple[BrokerSnapshot, BrokerSnapshot]:
        return (
            broker(figures={"commitLogMaxOffset": str(master_end)}),
            broker(broker_id=1, figures={"commitLogMaxOffset": str(slave_end)}),
        )

    assert list(replicas(survey_of(*pair(1_000, 900), later=pair(9_000, 8_000)))) == []


def test_a_master_that_did_not_say_its_topics_lacks_none() -> None:
    plain = {"orders": {"broker-a": TopicConfig(topic_name="orders")}}

    assert (
        list(topics(survey_of(broker(), broker("broker-b", error=NetworkError("gone")), topics=plain))) == []
    )


def test_a_thousand_topics_with_the_same_faults_are_a_few_findings() -> None:
    both_have = {"broker-a": TopicConfig(topic_name="x"), "broker-b": TopicConfig(topic_name="x")}
    uneven = {
        "broker-a": TopicConfig(topic_name="x"),
        "broker-b": TopicConfig(topic_name="x", write_queue_nums=2),
    }
    closed = {name: TopicConfig(topic_name="x", perm=int(Perm.READ)) for name in both_have}
    known = {f"whole-{at}": both_have for at in range(1000)}
    known |= {f"uneven-{at}": uneven for at in range(1000)}
    known |= {f"closed-{at}": closed for at in range(1000)}
    known |= {f"alone-{at}": {"broker-a": TopicConfig(topic_name="x")} for at in range(1000)}
    survey = survey_of(broker(), broker("broker-b"), topics=known)

    found = [*topics(survey), *queues(survey), *permissions(survey)]

    assert sorted(finding.subject for finding in found) == ["1,000 topics"] * 3
    assert all(len(finding.do.splitlines()) <= 5 for finding in found)


def test_with_a_group_only_its_topics_are_looked_at() -> None:
    known = {name: {"broker-a": TopicConfig(topic_name=name)} for name in ("orders", "bills")}
    survey = survey_of(
        broker(), broker("broker-b"), topics=known | {"x": {"broker-b": TopicConfig(topic_name="x")}}
    )
    survey.scope = Scope(groups=("billing",))
    survey.groups.topics.add("bills")

    assert [finding.subject for finding in topics(survey)] == ["topic bills"]


def test_findings_are_told_the_worst_first_with_the_names_of_their_checks() -> None:
    def check(name: str, severity: Severity) -> Check:
        return Check(name, name, lambda _: [Finding(severity, name, "message", "why", "do")])

    checks = [check("c", Severity.NOTE), check("b", Severity.WARNING), check("a", Severity.PROBLEM)]

    report = report_of(Survey(), checks, SurveyPart.CLUSTER)

    assert [finding.check for finding in report.findings] == ["a", "b", "c"]
    assert not report.is_well
    assert report_of(Survey(), checks[:1], SurveyPart.CLUSTER).is_well


def test_a_check_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ConfigError, match="there is no check 'x'; there are name-servers, "):
        chosen_checks(["x"])


def test_numbers_are_for_people() -> None:
    assert some_of([*"abcdef"]) == "a, b, c, d, e, f"
    assert some_of([*"abcdefg"]) == "a, b, c, d, e and 2 more"
    assert (both(["a"]), both([*"abc"])) == ("a", "a, b and c")
    assert (counted(1, "queue"), counted(2000, "queue")) == ("1 queue", "2,000 queues")
    assert (sized(10), sized(2048), sized(3 * 1024**4)) == ("10 B", "2.0 KiB", "3.0 TiB")
    assert (lasted(-90), lasted(300), lasted(7_300), lasted(300_000)) == (
        "90 seconds",
        "5 minutes",
        "2 hours",
        "3 days",
    )
