"""docs/howto/service.md and the README's web service: files, commands and tests as they stand there."""

import asyncio
import importlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from page_blocks import PageBlock, page_blocks

from pyromq import App
from pyromq.app.outcomes import Result
from pyromq.testing.waiting import aeventually, eventually

# The fixtures `shell` and `shared_address` are in conftest.py, and so are their types.
Shell = Any
ROOT = Path(__file__).parents[2]
SHOWN = "127.0.0.1:9876"
TIMEOUT_S = 120


def file_of(page: Path, name: str) -> str:
    """Return a file that a page shows: a program that begins with its name."""
    (block,) = (one for one in page_blocks(page) if one.text.startswith(f"# {name}\n"))
    return block.text


def command_of(page: Path, when: str) -> PageBlock:
    (block,) = (one for one in page_blocks(page) if one.when == when)
    return block


@pytest.fixture
def folder(shell: Shell, tmp_path: Path, shared_address: str) -> Iterator[Path]:
    """A folder whose modules are found by programs and by this test."""
    shell.environment |= {"PYTHONPATH": str(tmp_path), "NAMESRV_ADDR": shared_address}
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))


def run_tests(folder: Path, name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_service_of_the_page_runs_and_its_test_passes(
    shell: Shell, folder: Path, shared_address: str
) -> None:
    page = ROOT / "docs/howto/service.md"
    (folder / "billing.py").write_text(file_of(page, "billing.py").replace(SHOWN, shared_address))
    tests = next(one.text for one in page_blocks(page) if one.text.startswith("from billing import"))
    (folder / "test_billing.py").write_text(tests)
    run_tests(folder, "test_billing.py")

    service = shell.serve(*shlex.split(command_of(page, "service").text)[1:])
    assert [each["handler"] for each in service.ready()["handlers"]] == ["charge"]
    # Its group is new: it begins with what is sent from now on.
    send = shlex.split(command_of(page, "order").text)[1:]
    eventually(lambda: "there is no topic" in service.err or "topic orders here" in service.err)
    shell.output_of(*send)
    eventually(lambda: {"order": 7, "total": 125.0} in invoices(shell), 60, what="the invoice")

    assert service.stop() == 0


def test_the_production_command_of_the_page_is_one_that_works(
    shell: Shell, folder: Path, shared_address: str
) -> None:
    page = ROOT / "docs/howto/service.md"
    (folder / "billing.py").write_text(file_of(page, "billing.py").replace(SHOWN, shared_address))
    words = shlex.split(command_of(page, "production").text)[1:]
    words[words.index("--metrics-port") + 1] = "0"
    words[words.index("-n") + 1] = shared_address
    words[words.index("--workers") + 1] = "2"

    service = shell.serve(*words)

    assert len(service.ready()["workers"]) == 2
    assert service.stop() == 0


def invoices(shell: Shell) -> list[Any]:
    ended = shell.run("consume", "invoices", "--from", "first", "--body-only")
    return [json.loads(line) for line in ended.stdout.splitlines()] if ended.returncode == 0 else []


def test_the_readme_s_web_service_takes_orders_and_bills_them(folder: Path, shared_address: str) -> None:
    page = ROOT / "README.md"
    program, test = file_of(page, "shop.py"), file_of(page, "test_shop.py")
    assert len([line for line in (program + test).splitlines() if line.strip()]) < 30
    (folder / "shop.py").write_text(program.replace(SHOWN, shared_address))
    (folder / "test_shop.py").write_text(test)
    run_tests(folder, "test_shop.py")

    shop = importlib.import_module("shop")
    seen = asyncio.run(placed(shop.web, shop.mq))

    assert seen == (202, 422)


async def placed(web: Any, mq: App) -> tuple[int, int]:
    """Return the statuses of a good order and of a bad one, once the good one is billed."""
    http = httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://shop")
    async with web.router.lifespan_context(web), http:
        good = await http.post("/orders", json={"id": 7, "amount": 100})
        bad = await http.post("/orders", json={"id": "seven"})

        async def is_billed() -> bool:
            # A group that is new begins with what is sent from then on.
            await http.post("/orders", json={"id": 8, "amount": 1})
            return mq.metrics.count(mq.handlers[0], Result.DONE) > 0

        await aeventually(is_billed)
    return good.status_code, bad.status_code
