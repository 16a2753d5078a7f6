"""Whether an account may do what a request needs: the verdicts are those of RocketMQ 4.9.8's Permission."""

import pytest

from pyromq.broker.access.accounts import (
    AccessDenied,
    Account,
    Need,
    read_permission,
    read_resources,
)
from pyromq.config.account_rules import Permission, check_keys, check_resources
from pyromq.errors import ConfigError

PUB, SUB, DENY = Permission.PUB, Permission.SUB, Permission.DENY


def account(**fields: object) -> Account:
    return Account(access_key="web-shop", secret=b"secret", **fields)  # type: ignore[arg-type]


def may(owner: Account, *, is_admin: bool = False, **resources: Permission) -> bool:
    try:
        owner.check(17, Need(resources=resources, is_admin=is_admin))
    except AccessDenied:
        return False
    return True


@pytest.mark.parametrize(
    ("owned", "needed", "verdict"),
    [
        (PUB, PUB, True),
        (SUB, PUB, False),
        (PUB | SUB, SUB, True),
        (DENY, PUB, False),
        (DENY | PUB, PUB, False),
        (PUB, Permission.ANY, True),
        (DENY, Permission.ANY, False),
    ],
)
def test_what_is_owned_decides(owned: Permission, needed: Permission, verdict: bool) -> None:
    assert may(account(resources={"orders": owned}), orders=needed) is verdict


def test_a_topic_without_a_line_of_its_own_has_the_default_of_topics() -> None:
    assert may(account(default_topic=SUB, default_group=DENY), orders=SUB)


def test_a_group_without_a_line_of_its_own_has_the_default_of_groups() -> None:
    assert may(account(default_topic=DENY, default_group=SUB), **{"%RETRY%billing": SUB})


def test_nothing_is_allowed_that_nobody_allowed() -> None:
    assert not may(account(), orders=SUB)


def test_all_that_a_request_names_must_be_allowed() -> None:
    assert not may(account(resources={"orders": SUB}), **{"orders": SUB, "%RETRY%billing": SUB})


def test_an_administrator_without_lines_may_do_everything() -> None:
    assert may(account(is_admin=True), is_admin=True, orders=PUB)


def test_an_administrator_with_lines_is_held_to_them() -> None:
    assert not may(account(is_admin=True, resources={"orders": SUB}), orders=PUB)


def test_only_an_administrator_may_do_what_needs_one() -> None:
    assert not may(account(resources={"orders": PUB}), is_admin=True)


def test_everybody_may_send_traces() -> None:
    assert may(account(), RMQ_SYS_TRACE_TOPIC=PUB)


def test_not_everybody_may_read_traces() -> None:
    assert not may(account(), RMQ_SYS_TRACE_TOPIC=SUB)


def test_a_refusal_names_the_group_and_not_its_retry_topic() -> None:
    with pytest.raises(AccessDenied, match="No default permission for group:billing"):
        account().check(11, Need(resources={"%RETRY%billing": SUB}))


@pytest.mark.parametrize(
    ("word", "permission"),
    [
        ("PUB", PUB),
        ("SUB", SUB),
        ("PUB|SUB", PUB | SUB),
        (" SUB|PUB ", PUB | SUB),
        ("DENY", DENY),
        ("pub", DENY),
        ("", DENY),
    ],
)
def test_a_word_is_a_permission_and_any_other_allows_nothing(word: str, permission: Permission) -> None:
    assert read_permission(word) == permission


def test_lines_of_groups_are_kept_under_their_retry_topics() -> None:
    assert read_resources(["billing=SUB"], is_topic=False) == {"%RETRY%billing": SUB}


@pytest.mark.parametrize("line", ["orders", "orders=", "=PUB", "a=b=c"])
def test_a_line_that_is_no_name_with_a_permission_is_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="Parse resource permission failed"):
        read_resources([line], is_topic=True)


def test_an_order_with_a_word_that_is_no_permission_is_refused() -> None:
    with pytest.raises(ConfigError, match="Parse resource permission error for orders=WRITE"):
        check_resources(["orders=WRITE"])


@pytest.mark.parametrize(
    ("access_key", "secret_key"), [("short6", "long-enough"), ("long-enough", "short6"), ("", "")]
)
def test_keys_that_are_too_short_are_refused_without_showing_the_secret(
    access_key: str, secret_key: str
) -> None:
    with pytest.raises(ConfigError, match="length should longer than 6") as caught:
        check_keys(access_key, secret_key)
    assert not secret_key or secret_key not in str(caught.value).replace(access_key, "")


def test_an_account_does_not_show_its_secret() -> None:
    assert "secret'" not in repr(account())
