"""Every server says at start which speed runs, and so does `pyromq version`."""

from typing import Any

import pytest

from pyromq.kernel import _missing

at_both_speeds = pytest.mark.parametrize(
    "speed",
    [
        pytest.param(
            ("0", "compiled kernel"),
            id="compiled",
            marks=pytest.mark.skipif(bool(_missing()), reason="the kernel is not compiled here"),
        ),
        pytest.param(("1", "pure Python (PYROMQ_PURE is set)"), id="pure"),
    ],
    indirect=True,
)


@pytest.fixture
def speed(request: pytest.FixtureRequest, shell: Any) -> str:
    """The speed that programs of this test's shell run at, as they should say it."""
    pure, said = request.param
    shell.environment["PYROMQ_PURE"] = pure
    return str(said)


@at_both_speeds
@pytest.mark.parametrize("arguments", [["version"], ["--version"]], ids=" ".join)
def test_the_version_says_which_speed_runs(shell: Any, arguments: list[str], speed: str) -> None:
    assert shell.output_of(*arguments).endswith(f", {speed}\n")


@at_both_speeds
@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--namesrv-port", "0", "--broker-port", "0", "--data", "data"],
        ["namesrv", "-p", "0", "--data", "data"],
        ["broker", "--port", "0", "--data", "data"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_server_says_at_start_which_speed_runs(shell: Any, arguments: list[str], speed: str) -> None:
    server = shell.serve(*arguments)

    assert server.ready()["speed"] == speed
    assert speed in server.out
