"""A Chromium for tests of pages: Debian's, driven by Playwright's Python package.

The program is the one on the path. Where there is none, Debian's is unpacked into .cache with the libraries
and fonts that the machine lacks; without that the test fails: it is never skipped.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from debian_packages import unpacked
from playwright.sync_api import Browser, Error, sync_playwright

#: It draws without a screen, and so needs no desktop's libraries.
_PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
_FONTS = """<?xml version="1.0"?>
<fontconfig><dir>{folder}/usr/share/fonts</dir><dir>/usr/share/fonts</dir>
<cachedir>{folder}/var/cache/fontconfig</cachedir></fontconfig>
"""


class Program(NamedTuple):
    """Where a browser is, and what its environment must be; None: this one's."""

    path: str
    environment: dict[str, str | float | bool] | None = None


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser for the block."""
    found = program()
    with sync_playwright() as playwright:
        # A container has no namespaces to make a sandbox of, and little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        try:
            browser = playwright.chromium.launch(
                executable_path=found.path, args=arguments, env=found.environment
            )
        except Error as error:
            pytest.fail(f"{found.path} does not start: {error}\napt-get install chromium brings another")
        try:
            yield browser
        finally:
            browser.close()


def program() -> Program:
    """Return a Chromium, fetched if need be."""
    for name in ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return Program(found)
    folder = unpacked("chromium", _PACKAGES)
    return Program(_executable(folder), dict(_environment(folder)))


def _executable(folder: Path) -> str:
    # The program beside its resources, not Debian's script for it, which looks for them in /usr.
    for path in (folder / "usr" / "lib").glob("*/chromium-headless-shell"):
        return str(path)
    pytest.fail(f"{folder} has no Chromium: remove it, and it is fetched again")


def _environment(folder: Path) -> dict[str, str]:
    libraries = {str(one.parent) for one in (folder / "usr" / "lib").rglob("*.so*")}
    libraries |= {str(one.parent) for one in (folder / "lib").rglob("*.so*")}
    fonts = folder / "fonts.conf"
    fonts.write_text(_FONTS.format(folder=folder), encoding="utf-8")
    return os.environ | {
        "LD_LIBRARY_PATH": os.pathsep.join(sorted(libraries)),
        "FONTCONFIG_FILE": str(fonts),
    }
