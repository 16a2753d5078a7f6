import pytest

from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import NamesrvProcess
from pyromq.errors import ConfigError, Refused
from pyromq.namesrv.namesrv_live_settings import NamesrvLiveSettings


def live(**settings):
    return NamesrvLiveSettings(NamesrvProcess(namesrv=NamesrvSettings(**settings)))


async def test_a_live_setting_changes():
    settings = live()

    await settings.change("orderMessageEnable=true\n")

    assert settings.now.namesrv.order_message_enable
    assert "orderMessageEnable=true\n" in settings.as_text()


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "configBlackList"])
async def test_nothing_on_the_black_list_changes(key):
    settings = live()
    before = settings.now

    with pytest.raises(Refused) as refused:
        await settings.change(f"orderMessageEnable=true\n{key}=/tmp/x\n")

    assert refused.value.code == 16
    assert settings.now is before


async def test_a_longer_black_list_is_kept():
    settings = live(config_black_list="orderMessageEnable; productEnvName")

    with pytest.raises(Refused) as refused:
        await settings.change("productEnvName=x")

    assert refused.value.code == 16


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("listenPort=1", "restart"),
        ("kv_config_path=/tmp/x", "restart"),
        ("orderMessageEnabel=true", "orderMessageEnable"),
        ("orderMessageEnable=perhaps", "orderMessageEnable"),
        ("orderMessageEnable=\\u12", "line 1"),
    ],
)
async def test_what_cannot_change_is_refused_with_its_reason(text, named):
    with pytest.raises(Refused, match=named) as refused:
        await live(config_black_list="").change(text)

    assert refused.value.code == 1


async def test_settings_of_rocketmq_that_have_no_effect_are_taken():
    await live().change("serverWorkerThreads=8\n")


async def test_changes_outlive_a_restart_beside_what_the_file_said(tmp_path):
    path = tmp_path / "namesrv.properties"
    path.write_text("listenPort=9999\nproductEnvName=before\n")
    await live(config_store_path=str(path)).change("orderMessageEnable=true\nproductEnvName=after\n")

    settings = live(config_store_path=str(path))
    settings.load()

    assert settings.now.namesrv.order_message_enable
    assert settings.now.namesrv.product_env_name == "after"
    assert settings.now.namesrv.listen_port == 9876, "only what is live is read from here"
    assert "listenPort=9999\n" in path.read_text()


def test_without_a_file_there_is_nothing_to_read(tmp_path):
    for path in ("", str(tmp_path / "none")):
        settings = live(config_store_path=path)
        settings.load()
        assert settings.now.namesrv.product_env_name == "center"


@pytest.mark.parametrize("text", ["orderMessageEnable=perhaps\n", "a=\\u12\n"])
def test_a_kept_change_that_does_not_read_is_named(tmp_path, text):
    path = tmp_path / "namesrv.properties"
    path.write_text(text)

    with pytest.raises(ConfigError, match=r"namesrv\.properties"):
        live(config_store_path=str(path)).load()


async def test_a_file_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(Refused, match="cannot be written"):
        await live(config_store_path=str(tmp_path / "file" / "x")).change("orderMessageEnable=true")


def test_secrets_are_not_shown():
    settings = live()

    assert all("assword" not in line or line.endswith("=") for line in settings.as_text().splitlines())
