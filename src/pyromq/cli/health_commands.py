"""The command that asks a server for its health: `pyromq health`, for containers that have no curl."""

import json
import os
import urllib.error
import urllib.request
from typing import Annotated, Any, Final

import typer

from pyromq.cli import exit_status, options, output
from pyromq.errors import ConfigError
from pyromq.net.process_health import LIVE, READY

#: The port that `deploy/` gives `healthPort`.
DEFAULT_PORT: Final = 5560

Url = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        envvar="PYROMQ_HEALTH_URL",
        help="A health page, or HOST:PORT of a server that has it. "
        f"Default: this machine's, port {DEFAULT_PORT} or PYROMQ_HEALTH_PORT.",
    ),
]


def health(
    *,
    url: Url = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask whether it lives, not whether it is ready.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0.1, help="Seconds that the answer may take.")
    ] = 8.0,
    as_json: options.Json = False,
) -> None:
    """Ask a server whether it is ready, or lives: status 0 if so, 1 if not, and what fails.

    Servers have the pages beside their metrics, or on healthPort. Any page that answers 200 counts as well.
    """
    asked = page_of(url or _nearest(), is_live=live)
    found, is_well = _ask(asked, timeout_s)
    if as_json:
        output.say_json({"url": asked, "ok": is_well, **found})
    else:
        failing = [
            f"{name}: {check['why']}" for name, check in found.get("checks", {}).items() if not check["ok"]
        ]
        for line in failing or [found.get("why", f"{asked} is well")]:
            output.say(line)
    if not is_well:
        raise typer.Exit(exit_status.FAILED)


def _nearest() -> str:
    # The variable that gives a server of this container its port.
    return f"127.0.0.1:{os.environ.get('PYROMQ_HEALTH_PORT') or DEFAULT_PORT}"


def page_of(url: str, *, is_live: bool) -> str:
    """Return the page that is asked; raise ConfigError for what is neither an address nor a URL."""
    if options.is_address(url):
        url = f"http://{url.strip()}{READY}"
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{url!r} is no URL: say http://HOST:PORT{READY}, or HOST:PORT")
    return url.removesuffix(READY) + LIVE if is_live and url.endswith(READY) else url


def _ask(url: str, timeout_s: float) -> tuple[dict[str, Any], bool]:
    # A proxy has no part in it: the server is near.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            return _read(answer.read()), True
    except urllib.error.HTTPError as error:
        with error:
            return {"why": f"{url} answers {error.code} {error.reason}"} | _read(error.read()), False
    except (OSError, ValueError) as error:
        return {"why": f"{url} does not answer: {getattr(error, 'reason', error)}"}, False


def _read(body: bytes) -> dict[str, Any]:
    """Return what a health page says; nothing of a page that is none."""
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) and isinstance(said.get("checks"), dict) else {}
