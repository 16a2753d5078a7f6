"""A Chromium for tests of pages: Debian's, driven by Playwright's Python package.

The program is the one on the path. Where there is none, Debian's package is fetched and unpacked into .cache
without installing anything; without that the test fails: it is never skipped.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

_CACHE = Path(__file__).parents[2] / ".cache" / "chromium"
_PACKAGES = ("chromium", "chromium-common")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser for the block."""
    with sync_playwright() as playwright:
        # A container has no namespaces to make a sandbox of, and little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=program(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def program() -> str:
    """Return the path of Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    unpacked = _CACHE / "usr" / "lib" / "chromium" / "chromium"
    if not unpacked.exists():
        _fetch()
    return str(unpacked)


def _fetch() -> None:
    """Unpack Debian's packages; xdist's workers may do so at once, and each brings the same files."""
    work = _CACHE.with_name(f"chromium-{os.getpid()}")
    work.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", *_PACKAGES], cwd=work, check=True, timeout=300)
        for package in work.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(work / "unpacked")], check=True, timeout=100)
        # Whole or not at all: another worker may look for it at this moment, or have been faster.
        with suppress(OSError):
            (work / "unpacked").rename(_CACHE)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.fail(f"there is no Chromium, and it could not be fetched ({error}): apt-get install chromium")
    finally:
        shutil.rmtree(work, ignore_errors=True)
