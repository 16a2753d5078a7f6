"""The pytest plugin: sessions of pytest inside these tests, and its fixtures in tests of our own."""

import os
import shutil
import socket
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pyromq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    TopicNotFound,
    TransactionProducer,
    TransactionState,
)
from pyromq.testing import BrokerOfTest, ClockOfTest, ClusterOfTest, running_cluster

# The names above are imported here, so that a session inside a test need not import them anew.
pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
#: As a project that takes warnings for errors; without what our own environment has besides.
QUIET = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:timeout", "-W", "error", "-rs", "-q")
WITHOUT_ASYNCIO = (*QUIET, "-p", "no:asyncio")


# Sessions


def test_tests_share_a_broker_and_not_their_topics(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        seen = []

        def test_one(pyromq_broker, _pyromq_servers):
            topic = pyromq_broker.topic("orders")
            pyromq_broker.send("orders", {"id": 7}, tags="paid")
            (message,) = pyromq_broker.messages("orders", at_least=1)
            assert (message.topic, message.body, message.tags) == (topic, b'{"id":7}', "paid")
            assert pyromq_broker.topic("orders") == topic
            seen.append((pyromq_broker.name_server, topic, _pyromq_servers.starts))

        def test_two(pyromq_broker, pyromq_topic, pyromq_group, pyromq_name_server, _pyromq_servers):
            topic = pyromq_broker.topic("orders")
            assert pyromq_broker.messages("orders") == pyromq_broker.messages(pyromq_topic) == []
            address, before, starts = seen[0]
            assert pyromq_broker.name_server == pyromq_name_server == address
            assert topic != before and topic.startswith("orders-") and pyromq_group.startswith("group-")
            assert starts == _pyromq_servers.starts == 1
            # What a test made is gone.
            assert before not in pyromq_broker._clients.admin.topics()
    """)

    pytester.runpytest_inprocess(*WITHOUT_ASYNCIO).assert_outcomes(passed=2)


def test_asynchronous_tests_use_the_same_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makeini("""
        [pytest]
        asyncio_mode = auto
        asyncio_default_fixture_loop_scope = function
    """)
    pytester.makepyfile("""
        import pyromq
        from pyromq.aio import PushConsumer

        async def test_a_message_comes_again(pyromq_broker, pyromq_clock):
            tries = []

            async def handle(message):
                tries.append(message.reconsume_times)
                return len(tries) == 2

            topic, group = pyromq_broker.topic(), pyromq_broker.group()
            consumer = PushConsumer(group, pyromq_broker.name_server, listener=handle)
            consumer.subscribe(topic)
            async with consumer:
                await pyromq_broker.asend(topic, "again")
                await pyromq_broker.await_for(lambda: tries)
                await pyromq_clock.arun_until(lambda: len(tries) == 2)
            assert tries == [0, 1]
            assert [one.body for one in await pyromq_broker.amessages(topic, 1)] == [b"again"]
            assert await pyromq_broker.adead_letters(group) == []
    """)

    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=1)


def test_each_worker_of_xdist_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_it(pyromq_broker, number, worker_id):
            pyromq_broker.send(pyromq_broker.topic("orders"), str(number))
            (message,) = pyromq_broker.messages("orders", at_least=1)
            assert message.body == b"%d" % number
            print(f"{worker_id} at {pyromq_broker.name_server}.")
            with open(f"{worker_id}.txt", "a") as places:
                places.write(pyromq_broker.name_server + "\\n")
    """)

    pytester.runpytest_subprocess("-n", "2", *WITHOUT_ASYNCIO).assert_outcomes(passed=4)

    places = [set(path.read_text().split()) for path in pytester.path.glob("gw*.txt")]
    assert [len(each) for each in places] == [1, 1]
    assert len(set.union(*places)) == 2


def test_nothing_of_pyromq_is_imported_before_a_fixture_is_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("pyromq")
            ours = {name.split(".")[1] for name in sys.modules if name.startswith("pyromq.")}
            assert ours.isdisjoint({"broker", "client", "config", "net", "store", "wire", "app"})
    """)

    pytester.runpytest_subprocess(*WITHOUT_ASYNCIO).assert_outcomes(passed=1)


def sockets() -> set[str]:
    opened = set()
    for each in os.scandir("/proc/self/fd"):
        try:
            opened.add(os.readlink(each.path))
        except FileNotFoundError:
            continue
    return {one for one in opened if one.startswith("socket:")}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_a_session_leaves_nothing_behind(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pytester.makepyfile("""
        def test_shared(pyromq_broker):
            pyromq_broker.send(pyromq_broker.topic(), "x")

        def test_own(pyromq_broker, pyromq_clock):
            pyromq_broker.send(pyromq_broker.topic(), "x", delay_level=1)
            pyromq_clock.advance("1s")
            assert pyromq_broker.messages("topic", 1)
    """)
    threads, opened = set(threading.enumerate()), sockets()

    pytester.runpytest_inprocess(*WITHOUT_ASYNCIO).assert_outcomes(passed=2)

    assert set(threading.enumerate()) <= threads
    assert sockets() <= opened
    assert not list(tmp_path.glob("pyromq-*"))


# Settings


def test_a_marked_test_has_a_broker_of_its_own_with_its_settings_and_its_names(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("""
        [pytest]
        pyromq_settings =
            defaultTopicQueueNums=3
            messageDelayLevel=1s 7s
    """)
    pytester.makepyfile("""
        import pytest
        import pyromq

        def queues(broker):
            with pyromq.Producer("g", broker.name_server) as producer:
                return producer.send(pyromq.Message("made-by-a-send", b"x")).queue

        def test_settings_of_the_session(pyromq_broker, pyromq_cluster):
            assert queues(pyromq_broker).queue_id < 3
            assert not pyromq_cluster.is_own

        @pytest.mark.pyromq(autoCreateTopicEnable=False)
        class TestStrict:
            def test_own(self, pyromq_broker, pyromq_cluster):
                assert pyromq_cluster.is_own
                assert pyromq_broker.topic("orders") == "orders"
                with pytest.raises(pyromq.PyroError, match="made-by-a-send"):
                    queues(pyromq_broker)

            @pytest.mark.pyromq(brokers=2, auto_create_topic_enable=True)
            def test_nearer_marker(self, pyromq_broker, pyromq_cluster):
                assert pyromq_cluster.brokers == ["broker-a", "broker-b"]
                assert queues(pyromq_broker)

        def test_a_shared_broker_that_was_stopped(pyromq_broker, pyromq_cluster):
            topic = pyromq_broker.topic()
            pyromq_broker.send(topic, "kept")
            pyromq_cluster.stop_broker()
            assert pyromq_cluster.brokers == []

        def test_it_runs_again_and_is_stopped_by_a_test_that_sends_nothing(pyromq_cluster):
            assert pyromq_cluster.brokers == ["broker-a"]
            pyromq_cluster.stop_broker()

        def test_runs_again(pyromq_broker):
            pyromq_broker.send(pyromq_broker.topic(), "x")
    """)

    pytester.runpytest_inprocess(*WITHOUT_ASYNCIO).assert_outcomes(passed=6)


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        (
            "autoCreateTopicEnabel=False",
            "*autoCreateTopicEnabel is not a known setting; did you mean autoCre*",
        ),
        ("flushDiskType='SOMETIMES'", "*@pytest.mark.pyromq: flushDiskType: *SOMETIMES*"),
        ("brokers=0", "*brokers=0: expected a number from 1 to 26*"),
        ("grpc='yes'", "*grpc='yes': expected True or False*"),
        ("defaultTopicQueueNums=[4]", "*defaultTopicQueueNums=[[]4]: expected a text, a whole number*"),
        ("'orders'", "*('orders',): settings have names: @pytest.mark.pyromq(autoCreateTopicEnable=False)*"),
    ],
)
def test_a_marker_that_cannot_be_is_told_in_a_line(pytester: pytest.Pytester, marker: str, says: str) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.pyromq({marker})
        def test_it(pyromq_broker):
            pass
    """)

    result = pytester.runpytest_inprocess(*WITHOUT_ASYNCIO)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([says])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*session_servers.py*")


def test_a_line_of_settings_that_is_none_is_told(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npyromq_settings = autoCreateTopicEnable")
    pytester.makepyfile("def test_it(pyromq_broker): pass")

    result = pytester.runpytest_inprocess(*WITHOUT_ASYNCIO)

    result.stdout.fnmatch_lines(["*pyromq_settings: 'autoCreateTopicEnable': expected a line like *"])


def test_a_clock_that_is_asked_for_too_late_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_it(pyromq_broker, request):
            request.getfixturevalue("pyromq_clock")
    """)

    result = pytester.runpytest_inprocess(*WITHOUT_ASYNCIO)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*pyromq_clock was asked for by request.getfixturevalue*usefixtures*"])


@pytest.mark.pyromq(grpc=True)
def test_a_test_may_want_a_port_for_sdks_of_rocketmq_5(pyromq_cluster: ClusterOfTest) -> None:
    (address,) = pyromq_cluster.grpc_addresses
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=20):
        pass


# A real broker


def test_the_same_tests_run_with_a_real_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        def test_messages(pyromq_broker, pyromq_cluster):
            topic, group = pyromq_broker.topic("orders"), pyromq_broker.group("billing")
            pyromq_broker.send(topic, "x")
            assert len(pyromq_broker.messages(topic, 1)) == 1
            assert pyromq_cluster.is_real

        def test_clock(pyromq_clock):
            pyromq_clock.advance("1d")

        @pytest.mark.pyromq(autoCreateTopicEnable=False)
        def test_settings(pyromq_broker):
            pass

        def test_stop(pyromq_cluster):
            with pytest.raises(Exception, match="were there before"):
                pyromq_cluster.stop_broker()
    """)
    with running_cluster() as real, Admin(real.namesrv_address) as admin:
        before = set(admin.topics())

        result = pytester.runpytest_inprocess(*WITHOUT_ASYNCIO, "--pyromq-namesrv", real.namesrv_address)

        after = set(admin.topics())
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "SKIPPED*needs a broker whose clock it moves; --pyromq-namesrv names a real one",
            "SKIPPED*needs a broker of its own (@pytest.mark.pyromq); --pyromq-namesrv names a real one",
        ]
    )
    assert after == before


def test_a_name_server_that_is_not_there_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(pyromq_broker): pass")

    result = pytester.runpytest_inprocess(*WITHOUT_ASYNCIO, "--pyromq-namesrv", "127.0.0.1:1")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*--pyromq-namesrv 127.0.0.1:1: no name server with a broker answers there*"]
    )


# The example


def test_the_example_passes(pytester: pytest.Pytester) -> None:
    for path in (ROOT / "examples/testing").glob("*.py"):
        shutil.copy(path, pytester.path)

    pytester.runpytest_inprocess(*WITHOUT_ASYNCIO).assert_outcomes(passed=4)


# The clock


def test_a_message_of_level_3_and_one_of_a_day_come_when_they_are_due(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest
) -> None:
    topic = pyromq_broker.topic()
    pyromq_broker.send(topic, "level", delay_level=3)
    pyromq_broker.send(topic, "day", delay=timedelta(days=1))

    assert pyromq_broker.messages(topic) == []
    pyromq_clock.advance("10s")
    # Nobody waits: what is due is there when the clock has moved.
    assert [message.body for message in pyromq_broker.messages(topic)] == [b"level"]
    pyromq_clock.advance("23h30m")
    assert len(pyromq_broker.messages(topic)) == 1
    pyromq_clock.advance(timedelta(minutes=30))
    assert [message.body for message in pyromq_broker.messages(topic)] == [b"level", b"day"]


def test_a_failed_message_comes_again_and_is_a_dead_letter_in_no_time(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest
) -> None:
    topic, group = pyromq_broker.topic("orders"), pyromq_broker.group("billing")
    tries: list[int] = []

    def fail(message: ReceivedMessage) -> bool:
        tries.append(message.reconsume_times)
        return False

    # Its settings are those that everybody has.
    consumer = PushConsumer(group, pyromq_broker.name_server, listener=fail)
    consumer.subscribe(topic)
    with consumer:
        pyromq_broker.send(topic, "never")
        (dead,) = pyromq_clock.run_until(lambda: pyromq_broker.dead_letters(group))

    assert tries == list(range(17))
    assert (dead.message.body, dead.topic) == (b"never", topic)


@pytest.mark.parametrize("jump", ["0s", "30d"])
def test_an_undecided_transaction_is_asked_about(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest, jump: str
) -> None:
    topic = pyromq_broker.topic()
    # By the broker's clock the message is thirty days old then, and no file is kept as long.
    pyromq_clock.advance(jump)
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.body)
        return TransactionState.COMMIT

    with TransactionProducer(
        "shop",
        pyromq_broker.name_server,
        execute=lambda _message, _arg: TransactionState.UNKNOWN,
        check=check,
    ) as producer:
        producer.send_in_transaction(Message(topic, b"order 7"))
        assert pyromq_broker.messages(topic) == []

        pyromq_clock.advance("1m")
        pyromq_broker.messages(topic, at_least=1)

    assert asked == [b"order 7"]


def test_a_popped_message_comes_again_when_its_time_is_over(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest
) -> None:
    topic, group = pyromq_broker.topic(), pyromq_broker.group()
    pyromq_broker.send(topic, "x")
    consumer = SimpleConsumer(group, pyromq_broker.name_server, consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer.subscribe(topic)
    with consumer:
        (first,) = pyromq_broker.wait_for(lambda: consumer.receive(1, invisible_duration_ms=60_000))
        pyromq_clock.advance("1m")
        (again,) = pyromq_broker.wait_for(lambda: consumer.receive(1, invisible_duration_ms=60_000))

    assert (first.reconsume_times, again.reconsume_times) == (0, 1)


def test_a_group_has_its_retry_topic_before_its_consumers_look_for_it(pyromq_broker: BrokerOfTest) -> None:
    group = pyromq_broker.group()
    with Admin(pyromq_broker.name_server) as admin:
        assert admin.route(f"%RETRY%{group}").queue_datas


async def test_clients_go_on_where_the_broker_is_a_year_ahead(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest
) -> None:
    topic, group = pyromq_broker.topic(), pyromq_broker.group()
    got: list[bytes] = []
    consumer = PushConsumer(
        group, pyromq_broker.name_server, listener=lambda message: got.append(message.body)
    )
    consumer.subscribe(topic)
    with consumer, Producer("before", pyromq_broker.name_server) as producer:
        producer.send(Message(topic, b"before"))
        await pyromq_broker.await_for(lambda: got == [b"before"])

        for _ in range(12):
            await pyromq_clock.aadvance("30d")
        producer.send(Message(topic, b"after"))
        await pyromq_broker.await_for(lambda: got == [b"before", b"after"])
        # Nobody was taken for gone: neither the members nor the messages nor the broker.
        with Admin(pyromq_broker.name_server) as admin:
            assert len(admin.consumer_status(group).members) == 1
        assert len(await pyromq_broker.amessages(topic)) == 2
    assert pyromq_clock.now() - datetime.now(UTC) > timedelta(days=359)


def test_a_delay_counts_from_the_brokers_time_and_a_moment_is_what_it_is(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest
) -> None:
    topic = pyromq_broker.topic()
    pyromq_clock.advance("1d")
    pyromq_broker.send(topic, "moment", deliver_at=pyromq_clock.now() + timedelta(hours=1))
    pyromq_broker.send(topic, "delay", delay=timedelta(hours=2))
    pyromq_broker.send(topic, "gone", deliver_at=pyromq_clock.now() - timedelta(hours=1))

    def bodies() -> list[bytes]:
        return [message.body for message in pyromq_broker.messages(topic)]

    assert pyromq_broker.wait_for(bodies) == [b"gone"]
    pyromq_clock.advance("1h")
    assert bodies() == [b"gone", b"moment"]
    pyromq_clock.advance("1h")
    assert bodies() == [b"gone", b"moment", b"delay"]


def test_an_orderly_consumer_goes_on_after_a_jump(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest
) -> None:
    topic, group = pyromq_broker.topic(queues=1), pyromq_broker.group()
    got: list[bytes] = []
    consumer = PushConsumer(
        group, pyromq_broker.name_server, listener=lambda message: got.append(message.body), order="orderly"
    )
    consumer.subscribe(topic)
    with consumer:
        for body in ("1", "2"):
            pyromq_broker.send(topic, body)
        pyromq_broker.wait_for(lambda: len(got) == 2)
        pyromq_clock.advance("1d")
        for body in ("3", "4"):
            pyromq_broker.send(topic, body)
        pyromq_broker.wait_for(lambda: len(got) == 4)

    assert got == [b"1", b"2", b"3", b"4"]


def test_the_clock_flows_by_itself(pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest) -> None:
    topic = pyromq_broker.topic()
    pyromq_broker.send(topic, "x", delay_level=1)
    pyromq_broker.messages(topic, at_least=1)


# Wrong words


@pytest.mark.parametrize("text", ["soon", "10", "10 s", "-1s", "1h 30m"])
def test_a_time_that_is_none_is_told(pyromq_clock: ClockOfTest, text: str) -> None:
    with pytest.raises(ValueError, match="is no time: write a number and ms, s, m, h or d"):
        pyromq_clock.advance(text)


def test_time_does_not_go_back(pyromq_clock: ClockOfTest) -> None:
    with pytest.raises(ValueError, match="time cannot go back by 5000 ms"):
        pyromq_clock.advance(-5)


def test_messages_that_do_not_come_are_told_with_their_number(pyromq_broker: BrokerOfTest) -> None:
    topic = pyromq_broker.topic("orders")
    pyromq_broker.send(topic, "x")

    with pytest.raises(
        AssertionError, match=f"2 messages in topic {topic}: not there within 0 s; there are 1"
    ):
        pyromq_broker.messages("orders", at_least=2, timeout_s=0)


def test_a_topic_that_nobody_made_has_no_messages(
    pyromq_broker: BrokerOfTest, pyromq_cluster: ClusterOfTest
) -> None:
    assert pyromq_broker.messages("nobody-made-it") == []
    with Admin(pyromq_cluster.name_server) as admin, pytest.raises(TopicNotFound):
        admin.route("nobody-made-it")
