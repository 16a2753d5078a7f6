"""RocketMQ's settings without effect: each has its default, its category and a reason."""

import json
import re
from pathlib import Path

import pytest

from pyromq.config.idle import IDLE, SECRET, unheeded
from pyromq.config.idle_table import GROUPS, LostPromise
from pyromq.config.load import GivenSetting, load
from pyromq.config.rocketmq import APACHE_NAMES, NO_EFFECT, REFUSED
from pyromq.config.setting_names import SAME
from pyromq.config.settings import NamesrvProcess

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "interop" / "recorded" / "mqadmin_4.9.json"
# Settings of the broker that was recorded, which its file has.
CHANGED_IN_RECORDING = {"waitTimeMillsInSendQueue", "bitMapLengthConsumeQueueExt", "rocketmqHome"}


@pytest.mark.row("CF-02")
def test_each_setting_without_effect_has_a_category_and_a_reason() -> None:
    assert IDLE.keys() == NO_EFFECT
    assert all(one.category and one.reason for one in IDLE.values())


def test_a_setting_is_in_the_table_once_and_is_one_of_rocketmqs() -> None:
    keys = [one.key for group in GROUPS for one in group.settings()]

    assert len(keys) == len(set(keys))
    assert set(keys) <= APACHE_NAMES


def test_a_setting_that_has_an_effect_is_not_in_the_table() -> None:
    assert not IDLE.keys() & SAME.keys()


def test_the_defaults_are_those_that_a_broker_of_apache_printed() -> None:
    recorded = RECORDED.read_text()
    printed = dict(re.findall(r"(\w+) +=  (.*?)\\\\n", json.dumps(recorded)))
    shared = IDLE.keys() & printed.keys() - CHANGED_IN_RECORDING

    assert len(shared) > 60
    wrong = {key for key in shared if IDLE[key].defaults and not IDLE[key].changes_nothing(printed[key])}
    assert wrong == set()


@pytest.mark.row("CF-02")
def test_the_reference_has_all_of_them_in_a_table_of_their_own() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    table = page.partition("## Accepted without effect")[2]

    rows = dict(re.findall(r"^\| `([\w.]+)` \| .*? \| (.+) \|$", table, re.MULTILINE))
    assert rows.keys() == NO_EFFECT
    assert all(rows[key].endswith(IDLE[key].reason) for key in rows)


def test_what_is_refused_when_true_changes_a_promise_or_names_what_is_not_built() -> None:
    assert all("not" in IDLE[key].reason or IDLE[key].promise for key in REFUSED)


@pytest.mark.parametrize(
    ("key", "promise"),
    [
        ("totalReplicas", LostPromise.DURABILITY),
        ("readOnlyCommitLogStorePaths", LostPromise.DURABILITY),
        ("coldDataFlowControlEnable", LostPromise.LIMITS),
        ("authenticationStrategy", LostPromise.SECURITY),
        ("serverWorkerThreads", None),
    ],
)
def test_a_setting_says_which_promise_it_would_change(key: str, promise: LostPromise | None) -> None:
    assert IDLE[key].promise is promise


@pytest.mark.parametrize("value", ["true", " TRUE ", True])
def test_a_default_is_not_told_however_it_is_written(value: str | bool) -> None:
    assert unheeded("enableDetailStat", value, "f:1") is None


def test_a_value_that_asks_for_what_is_built_is_not_told() -> None:
    assert unheeded("recallMessageEnable", "true", "f:1") is None
    assert unheeded("recallMessageEnable", "false", "f:1") is not None


def test_the_value_that_came_last_is_told() -> None:
    given = [GivenSetting("clusterTest", "true", "f:1"), GivenSetting("clusterTest", "false", "--set")]

    assert load(NamesrvProcess, given).unheeded == ()


@pytest.mark.parametrize("key", sorted(SECRET))
def test_a_value_that_may_hold_a_password_is_not_printed(key: str) -> None:
    told = unheeded(key, "hush", "f:1")

    assert told is not None
    assert "hush" not in f"{told} {told.as_record()}"


def test_a_secret_of_the_other_server_is_not_printed() -> None:
    given = [GivenSetting("innerClientAuthenticationCredentials", "hush", "f:1")]

    (told,) = load(NamesrvProcess, given).warnings

    assert "hush" not in told
