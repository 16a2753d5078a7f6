import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.config.load import load, read_file
from pyromq.config.settings import BrokerProcess, NamesrvProcess

ROOT = Path(__file__).parents[3]


def test_the_conf_files_and_the_reference_page_are_as_the_settings_say() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "tools/gen_conf.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout) == (0, "")


def uncommented(path: Path, tmp_path: Path) -> Path:
    """Every key of a generated file set to the default that stands there."""
    lines = path.read_text().splitlines()
    keys = [line[1:] for line in lines if line.startswith("#") and not line.startswith(("# ", "##"))]
    (tmp_path / path.name).write_text("\n".join(key for key in keys if key) + "\n")
    return tmp_path / path.name


def test_a_broker_file_with_every_default_written_out_is_the_defaults(tmp_path: Path) -> None:
    given = read_file(uncommented(ROOT / "conf/broker.conf", tmp_path))

    assert len(given) > 80
    assert load(BrokerProcess, given).process == BrokerProcess()


def test_a_name_server_file_with_every_default_written_out_is_the_defaults(tmp_path: Path) -> None:
    given = read_file(uncommented(ROOT / "conf/namesrv.conf", tmp_path))

    assert len(given) > 20
    assert load(NamesrvProcess, given).process == NamesrvProcess()


@pytest.mark.parametrize("name", ["broker.conf", "namesrv.conf"])
def test_the_files_as_they_are_set_nothing(name: str) -> None:
    assert read_file(ROOT / "conf" / name) == []
