"""The files that accounts are kept in."""

import stat
from pathlib import Path

import pytest
import yaml

from pyromq.broker.access.account_files import (
    AccessFile,
    AccountChange,
    find_files,
    read_account,
    read_file,
    with_change,
    write_file,
)
from pyromq.config.account_rules import Permission
from pyromq.errors import ConfigError
from pyromq.wire.bodies.topic_bodies import DataVersion

#: RocketMQ's own example, distribution/conf/plain_acl.yml.
APACHES = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    path.write_text(APACHES)
    return path


def test_apaches_own_example_reads(path: Path) -> None:
    file = read_file(path)

    first, second = (read_account(fields, path) for fields in file.accounts)
    assert file.white == ("10.10.103.*", "192.168.0.*")
    assert (first.access_key, first.secret, first.is_admin) == ("RocketMQ", b"12345678", False)
    assert first.default_group == Permission.SUB
    assert first.resources["topicB"] == Permission.PUB | Permission.SUB
    assert first.resources["%RETRY%groupA"] == Permission.DENY
    assert second.is_admin
    assert "192.168.1.200" in second.white


@pytest.mark.parametrize(
    "secret", ["012345670", "0x12345678", "1e10000", "12:30:45", "yes-yes-yes", "true-true"]
)
def test_a_secret_is_the_text_that_stands_there(path: Path, secret: str) -> None:
    path.write_text(f"accounts:\n- accessKey: web-shop\n  secretKey: {secret}\n")

    assert read_account(read_file(path).accounts[0], path).secret == secret.encode()


def test_an_empty_file_has_no_accounts(path: Path) -> None:
    path.write_text("")

    assert read_file(path).accounts == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("accounts: [\n", "line"),
        ("- one\n- two\n", "names with values"),
        ("accounts:\n- one\n", "accounts must be a list"),
        ("accounts: 5\n", "accounts must be a list"),
        ("globalWhiteRemoteAddresses: 10.0.0.1\n", "must be a list"),
        ("dataVersion:\n- counter: many\n", "dataVersion"),
    ],
)
def test_a_file_that_does_not_read_is_refused_by_name_and_place(path: Path, text: str, what: str) -> None:
    path.write_text(text)

    with pytest.raises(ConfigError, match=what) as caught:
        read_file(path)
    assert str(path) in str(caught.value)


def test_the_error_of_a_file_does_not_show_the_secret_beside_it(path: Path) -> None:
    path.write_text("accounts:\n- accessKey: web-shop\n  secretKey: [the-secret-itself\n  admin: }\n")

    with pytest.raises(ConfigError) as caught:
        read_file(path)
    assert "the-secret-itself" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_python_objects_in_a_file_are_not_made(path: Path, tmp_path: Path) -> None:
    path.write_text(f"accounts: !!python/object/apply:os.mkdir ['{tmp_path / 'made'}']\n")

    with pytest.raises(ConfigError):
        read_file(path)
    assert not (tmp_path / "made").exists()


def test_all_yaml_files_below_the_folder_count_and_the_default_one_is_last(path: Path) -> None:
    folder = path.parent / "acl"
    (folder / "team").mkdir(parents=True)
    for name in ("b.yaml", "team/a.yml", "notes.txt"):
        (folder / name).write_text("")

    assert find_files(path.parent) == [folder / "b.yaml", folder / "team/a.yml", path]


def test_a_changed_account_keeps_what_the_change_does_not_name(path: Path) -> None:
    change = AccountChange(access_key="RocketMQ", secret_key="another-secret", topic_perms=["topicD=PUB"])

    write_file(with_change(read_file(path), change))

    changed = next(one for one in read_file(path).accounts if one["accessKey"] == "RocketMQ")
    assert changed["secretKey"] == "another-secret"
    assert changed["topicPerms"] == ["topicD=PUB"]
    assert changed["defaultGroupPerm"] == "SUB"
    assert len(read_file(path).accounts) == 2


def test_what_is_written_reads_with_types_that_apache_expects(path: Path) -> None:
    write_file(
        with_change(read_file(path), AccountChange(access_key="web-shop", secret_key="87654321", admin=True))
    )

    root = yaml.safe_load(path.read_text())
    added = root["accounts"][-1]
    assert (added["secretKey"], added["admin"]) == ("87654321", True)
    assert isinstance(root["dataVersion"][0]["counter"], int)


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_written_file_may_be_read_by_nobody_who_could_not_before(path: Path, mode: int) -> None:
    path.chmod(mode)

    write_file(read_file(path))

    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_is_its_owners_only(tmp_path: Path) -> None:
    new = tmp_path / "new.yml"

    write_file(AccessFile(new, (), (), DataVersion()))

    assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_a_change_and_a_file_do_not_show_secrets(path: Path) -> None:
    assert "12345678" not in repr(read_file(path))
    assert "87654321" not in repr(AccountChange(access_key="web-shop", secret_key="87654321"))
