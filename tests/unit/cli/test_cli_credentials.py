"""Who the commands are to brokers with access control."""

from pathlib import Path

import pytest

from pyromq.cli.credentials import client_settings
from pyromq.errors import ConfigError


def test_without_a_word_requests_are_not_signed() -> None:
    settings = client_settings({})

    assert (settings.access_key, settings.secret_key, settings.use_tls) == ("", "", False)


def test_keys_and_tls_come_from_the_environment() -> None:
    settings = client_settings(
        {
            "PYROMQ_ACCESS_KEY": "web-shop",
            "PYROMQ_SECRET_KEY": "the-secret",
            "PYROMQ_USE_TLS": "true",
            "PYROMQ_TLS_CLIENT_TRUST_CERT_PATH": "/ca.pem",
        }
    )

    assert (settings.access_key, settings.secret_key) == ("web-shop", "the-secret")
    assert (settings.use_tls, settings.tls_client_trust_cert_path) == (True, "/ca.pem")


def test_keys_come_from_mqadmins_own_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/tools.yml").write_text("accessKey: rocketmq2\nsecretKey: 012345678\n")

    settings = client_settings({"ROCKETMQ_HOME": str(tmp_path)})

    assert (settings.access_key, settings.secret_key) == ("rocketmq2", "012345678")


def test_the_environment_comes_before_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.yml"
    file.write_text("accessKey: rocketmq2\nsecretKey: 12345678\n")

    settings = client_settings({"PYROMQ_CREDENTIALS": str(file), "PYROMQ_ACCESS_KEY": "web-shop"})

    assert (settings.access_key, settings.secret_key) == ("web-shop", "12345678")


@pytest.mark.parametrize("text", ["accessKey: [the-secret-itself\n", "- the-secret-itself\n"])
def test_a_file_that_does_not_read_is_named_without_what_it_says(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys.yml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=r"keys\.yml") as caught:
        client_settings({"PYROMQ_CREDENTIALS": str(file)})
    assert "the-secret-itself" not in str(caught.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="/nowhere/keys"):
        client_settings({"PYROMQ_CREDENTIALS": "/nowhere/keys"})


def test_a_value_that_does_not_read_is_named() -> None:
    with pytest.raises(ConfigError, match="PYROMQ_USE_TLS: expected true or false"):
        client_settings({"PYROMQ_USE_TLS": "perhaps"})
