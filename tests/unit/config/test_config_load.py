from pathlib import Path

import pytest

from pyromq.config.choices import BrokerRole, FlushDiskType
from pyromq.config.load import (
    GivenSetting,
    load,
    odd_variables,
    read_assignments,
    read_environment,
    read_file,
)
from pyromq.config.settings import BrokerProcess, NamesrvProcess, UpProcess
from pyromq.errors import ConfigError

# The files of RocketMQ 4.9's conf folder, as an installation has them.
APACHE_MASTER = """\
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
deleteWhen=04
fileReservedTime=48
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
"""
APACHE_SLAVE = APACHE_MASTER.replace("brokerId=0", "brokerId=1").replace("ASYNC_MASTER", "SLAVE")
APACHE_SYNC = APACHE_MASTER.replace("ASYNC_MASTER", "SYNC_MASTER").replace("broker-a", "broker-b")
APACHE_BROKER_CONF = """\
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""
# What manuals tell people to write.
A_MANUALS_FILE = """\
# cluster
brokerClusterName=rocketmq-cluster
brokerName=broker-a
brokerId=0
namesrvAddr=rocketmq-nameserver1:9876;rocketmq-nameserver2:9876
defaultTopicQueueNums=4
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
listenPort=10911
deleteWhen=04
fileReservedTime=120
mapedFileSizeCommitLog=1073741824
diskMaxUsedSpaceRatio=88
storePathRootDir=/usr/local/rocketmq/store
storePathCommitLog=/usr/local/rocketmq/store/commitlog
storePathConsumeQueue=/usr/local/rocketmq/store/consumequeue
storePathIndex=/usr/local/rocketmq/store/index
storeCheckpoint=/usr/local/rocketmq/store/checkpoint
abortFile=/usr/local/rocketmq/store/abort
maxMessageSize=65536
brokerRole=SYNC_MASTER
flushDiskType=ASYNC_FLUSH
sendMessageThreadPoolNums=128
pullMessageThreadPoolNums=128
"""


def written(tmp_path: Path, text: str, name: str = "broker.conf") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def problems_of(*given: GivenSetting) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(BrokerProcess, given)
    return str(caught.value).splitlines()


def test_nothing_given_is_the_defaults_without_warnings() -> None:
    loaded = load(BrokerProcess, [])

    assert loaded.process == BrokerProcess()
    assert loaded.sources == {}
    assert loaded.warnings == ()


@pytest.mark.parametrize("text", [APACHE_MASTER, APACHE_SLAVE, APACHE_SYNC, APACHE_BROKER_CONF])
def test_apaches_own_files_work_as_they_are(tmp_path: Path, text: str) -> None:
    loaded = load(BrokerProcess, read_file(written(tmp_path, text)))

    assert loaded.process.store.file_reserved_time == 48
    assert loaded.process.store.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    assert loaded.warnings == ()


def test_apaches_slave_file_makes_a_slave(tmp_path: Path) -> None:
    broker = load(BrokerProcess, read_file(written(tmp_path, APACHE_SLAVE))).process.broker

    assert (broker.broker_role, broker.broker_id) == (BrokerRole.SLAVE, 1)


@pytest.mark.row("CF-01")
def test_a_file_from_a_manual_works_and_a_line_each_says_what_has_no_effect_and_why(tmp_path: Path) -> None:
    path = written(tmp_path, A_MANUALS_FILE)
    loaded = load(BrokerProcess, read_file(path))

    assert loaded.process.broker.namesrv_addr == "rocketmq-nameserver1:9876;rocketmq-nameserver2:9876"
    told = {warning.split()[1].partition("=")[0]: warning for warning in loaded.warnings}
    assert list(told) == [
        *("storePathConsumeQueue", "storePathIndex", "storeCheckpoint", "abortFile"),
        *("sendMessageThreadPoolNums", "pullMessageThreadPoolNums"),
    ]
    assert told["sendMessageThreadPoolNums"] == (
        f"{path}:23: sendMessageThreadPoolNums=128 has no effect: one loop serves every request: "
        "there is no pool of threads to size"
    )
    assert told["abortFile"].endswith("has no effect: RocketMQ 4.9 does not read it either")


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path: Path) -> None:
    file = read_file(written(tmp_path, "brokerName=from-file\nlistenPort=1\nfileReservedTime=1\n"))
    environment = read_environment(
        {"PYROMQ_BROKER_NAME": "from-environment", "PYROMQ_LISTEN_PORT": "2"}, BrokerProcess
    )
    flags = read_assignments(["brokerName=from-flag"])

    loaded = load(BrokerProcess, [*file, *environment, *flags])

    assert loaded.process.broker.broker_name == "from-flag"
    assert loaded.process.broker.listen_port == 2
    assert loaded.process.store.file_reserved_time == 1
    assert loaded.sources == {
        "broker_name": "--set",
        "listen_port": "PYROMQ_LISTEN_PORT",
        "file_reserved_time": f"{tmp_path / 'broker.conf'}:3",
    }


def test_an_unknown_key_is_named_with_file_line_and_the_nearest_known_one(tmp_path: Path) -> None:
    path = written(tmp_path, "# ours\nbrokerNam=broker-a\n")

    assert problems_of(*read_file(path)) == [
        f"{path}:2: brokerNam is not a known setting; did you mean brokerName?"
    ]


def test_a_key_in_our_spelling_gets_a_hint_in_our_spelling() -> None:
    assert problems_of(GivenSetting("broker_nam", "x", "--set")) == [
        "--set: broker_nam is not a known setting; did you mean broker_name?"
    ]


def test_a_key_like_no_other_gets_the_way_to_the_list_of_all() -> None:
    (problem,) = problems_of(GivenSetting("zzzzzz", "1", "--set"))

    assert "pyromq broker --print-settings" in problem


def test_an_unreadable_value_is_named_with_its_source(tmp_path: Path) -> None:
    path = written(tmp_path, "brokerId=0\n\nlistenPort=10911x\n")

    assert problems_of(*read_file(path)) == [f"{path}:3: listenPort: expected a whole number, not '10911x'"]


def test_all_mistakes_are_named_at_once() -> None:
    problems = problems_of(GivenSetting("brokerNam", "x", "f:1"), GivenSetting("brokerId", "one", "f:2"))

    assert [problem.split(":")[1] for problem in problems] == ["1", "2"]


@pytest.mark.parametrize("key", ["enableDLegerCommitLog", "authenticationEnabled"])
def test_promises_that_we_cannot_keep_stop_the_start(key: str) -> None:
    (problem,) = problems_of(GivenSetting(key, "true", "f:1"))

    assert problem.startswith(f"f:1: {key}: cannot be true here")


def test_a_promise_that_is_not_asked_for_has_no_effect() -> None:
    assert load(BrokerProcess, [GivenSetting("authenticationEnabled", "false", "f:1")]).warnings == ()


def test_settings_of_the_other_server_have_no_effect() -> None:
    loaded = load(
        NamesrvProcess, [GivenSetting("brokerName", "a", "f:1"), GivenSetting("listenPort", "1", "f:2")]
    )

    assert loaded.process.namesrv.listen_port == 1
    assert loaded.warnings == ("f:1: brokerName=a has no effect: this server has no such setting",)


def test_a_key_that_broker_and_name_server_share_is_the_brokers_when_they_run_together() -> None:
    process = load(
        UpProcess, [GivenSetting("listenPort", "1", "f:1"), GivenSetting("orderMessageEnable", "true", "f:2")]
    ).process

    assert process.broker.listen_port == 1
    assert process.namesrv.listen_port == 9876
    assert process.namesrv.order_message_enable is True


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"brokerId": "1"}, "brokerId (t) and brokerRole (default): a master's brokerId is 0"),
        ({"brokerRole": "SLAVE"}, "brokerId (default) and brokerRole (t): a slave needs a brokerId above 0"),
        ({"mappedFileSizeCommitLog": "65536"}, "a file of 65536 bytes cannot hold a body of 4194304"),
        (
            {"storePathCommitLog": "/one/commitlog,/two/commitlog"},
            "storePathCommitLog (t): several folders for one log are not supported; move its files into one",
        ),
        ({"frameBytesMax": "4194304"}, "a frame of 4194304 bytes cannot carry a body of 4194304"),
        ({"diskSpaceCleanForciblyRatio": "95"}, "files must go before sends are refused"),
        ({"writeBufferLowWaterMark": "99999999"}, "the low mark is above the high one"),
        ({"tls.server.certPath": "/c.pem"}, "a certificate and its key go together"),
        ({"tls.server.mode": "enforcing"}, "TLS is required, but there is no certificate"),
    ],
)
def test_settings_that_do_not_go_together_are_named(given: dict[str, str], expected: str) -> None:
    (problem,) = problems_of(*[GivenSetting(key, value, "t") for key, value in given.items()])

    assert expected in problem


def test_toml_files_may_group_and_use_either_spelling(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[broker]\nbrokerName = "toml"\ntrace_on = false\n[store]\nfile_reserved_time = 9\n',
        "b.toml",
    )

    loaded = load(BrokerProcess, read_file(path))

    assert loaded.process.broker.broker_name == "toml"
    assert loaded.process.broker.trace_on is False
    assert loaded.sources["file_reserved_time"] == f"{path}:5"


def test_a_mistake_in_a_toml_file_has_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "# x\n[broker]\nbrokerNam = 'a'\n", "b.toml")

    (problem,) = problems_of(*read_file(path))

    assert problem.startswith(f"{path}:3: brokerNam")


@pytest.mark.parametrize("text", ["brokerName = \n", "brokerName = [1]\n", "brokerName = 1.5\n"])
def test_toml_that_holds_no_setting_is_refused_with_the_files_name(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text, "b.toml")

    with pytest.raises(ConfigError, match=r"b\.toml.*(line 1|:1:)"):
        read_file(path)


def test_a_file_that_is_not_there_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.conf: cannot be read: No such file"):
        read_file(tmp_path / "none.conf")


def test_a_broken_escape_in_a_file_has_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "a=1\nb=\\u1\n")

    with pytest.raises(ConfigError, match=r"broker\.conf:2: .*four hex digits"):
        read_file(path)


def test_a_file_that_is_no_utf8_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"# caf\xe9\nbrokerId=0\n")

    assert [item.key for item in read_file(path)] == ["brokerId"]


@pytest.mark.parametrize("text", ["brokerName", "=x", ""])
def test_an_assignment_without_key_or_equals_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected KEY=VALUE"):
        read_assignments([text])


def test_an_assignments_value_may_hold_equals_signs() -> None:
    assert read_assignments(["regionId=a=b"]) == [GivenSetting("regionId", "a=b", "--set")]


@pytest.mark.row("AD-03")
def test_rocketmqs_variable_names_the_name_servers_and_ours_wins_over_it() -> None:
    plain = read_environment({"NAMESRV_ADDR": "a:1"}, BrokerProcess)
    both = read_environment({"NAMESRV_ADDR": "a:1", "PYROMQ_NAMESRV_ADDR": "b:2"}, BrokerProcess)

    assert load(BrokerProcess, plain).process.broker.namesrv_addr == "a:1"
    assert load(BrokerProcess, both).process.broker.namesrv_addr == "b:2"


def test_variables_of_other_programs_are_left_alone() -> None:
    # What Kubernetes gives every container when a service is called pyromq.
    environment = {"PYROMQ_PORT": "tcp://10.0.0.1:9876", "PYROMQ_SERVICE_HOST": "10.0.0.1", "PATH": "/bin"}

    assert read_environment(environment, BrokerProcess) == []
    assert odd_variables(environment) == []


def test_a_variable_that_is_nearly_a_setting_is_pointed_out() -> None:
    assert odd_variables({"PYROMQ_BROKR_NAME": "x"}) == [
        "PYROMQ_BROKR_NAME is not a setting and was not used; did you mean PYROMQ_BROKER_NAME?"
    ]
