"""Write conf/*.conf and docs/reference/settings.md from the settings classes.

`python tools/gen_conf.py` writes them; with `--check` it names those that are stale and ends with status 1.
A test keeps them fresh (tests/unit/config/test_config_generated.py).
"""

import sys
import textwrap
from pathlib import Path

from pyromq.config.field import Setting, settings_of
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.config.idle import IDLE
from pyromq.config.idle_table import Idle
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.pop_settings import PopSettings
from pyromq.config.pressure import PressureSettings
from pyromq.config.rocketmq import REFUSED
from pyromq.config.setting_names import RENAMED
from pyromq.config.settings import BrokerSettings, ClientSettings, NetSettings, StoreSettings
from pyromq.config.values import write_value

ROOT = Path(__file__).parents[1]
HEAD = {
    "broker.conf": """\
        Settings of a broker: pyromq broker -c conf/broker.conf -n 127.0.0.1:9876

        Every key is here with its default, as a comment; remove the '#' and change it. The names are
        RocketMQ's, and RocketMQ's own broker.conf works as it is. Written by tools/gen_conf.py.""",
    "namesrv.conf": """\
        Settings of a name server: pyromq namesrv -c conf/namesrv.conf

        Every key is here with its default, as a comment; remove the '#' and change it. The names are
        RocketMQ's. Written by tools/gen_conf.py.""",
}
PARTS = {
    "broker.conf": (
        ("Broker", BrokerSettings),
        ("Broker busy", PressureSettings),
        ("RocketMQ 5", PopSettings),
        ("gRPC", GrpcSettings),
        ("Store", StoreSettings),
        ("Connections", NetSettings),
    ),
    "namesrv.conf": (("Name server", NamesrvSettings), ("Connections", NetSettings)),
}
REFERENCE = (
    ("Broker", BrokerSettings, "of `pyromq broker` and `pyromq up`"),
    ("Broker busy", PressureSettings, "of `pyromq broker` and `pyromq up`"),
    ("RocketMQ 5", PopSettings, "of `pyromq broker` and `pyromq up`"),
    ("gRPC", GrpcSettings, "of `pyromq broker` and `pyromq up`: RocketMQ 5's SDKs"),
    ("Store", StoreSettings, "of `pyromq broker` and `pyromq up`"),
    ("Name server", NamesrvSettings, "of `pyromq namesrv` and `pyromq up`"),
    ("Connections", NetSettings, "of both servers"),
    ("Client", ClientSettings, "of the Python client: fields of `ClientSettings`, given by the program"),
)


def conf_file(name: str) -> str:
    """Return the text of a settings file in which every key is a comment with its default."""
    lines = [f"# {line}".rstrip() for line in textwrap.dedent(HEAD[name]).splitlines()]
    for title, owner in PARTS[name]:
        lines += ["", "#" * 3 + " " + title]
        for setting in settings_of(owner):
            lines += ["", *textwrap.wrap(f"# {_about(setting)}", 100, subsequent_indent="# ")]
            lines.append(f"#{setting.key}={write_value(setting.default)}")
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Return the reference page of all settings."""
    lines = [
        "# Settings",
        "",
        "<!-- Written by tools/gen_conf.py from src/pyromq/config/settings.py; change it there. -->",
        "",
        "A setting comes from, in rising order: its default here, the file of `-c` (Java properties as",
        "RocketMQ's `broker.conf`, or TOML), the environment (`PYROMQ_` and our name in capitals, as",
        "`PYROMQ_BROKER_NAME`; RocketMQ's `NAMESRV_ADDR`), flags (`--set brokerName=broker-b`). Files and",
        "`--set` take RocketMQ's name and ours. `pyromq broker --print-settings` shows each value and where",
        "it came from. *Live* settings may change while the process runs: a name server's by",
        "`updateNamesrvConfig`, a broker's by `updateBrokerConfig`; the change is kept beside the data, and",
        "holds over what the next start is given (`namesrvAddr` only if that is the same as before).",
    ]
    for title, owner, whose in REFERENCE:
        lines += ["", f"## {title}", "", f"Settings {whose}.", ""]
        lines += [
            "| RocketMQ's name | ours | default | live | what it does |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [_row(setting) for setting in settings_of(owner)]
    lines += ["", "## RocketMQ's other names", "", "Renamed here:", ""]
    lines += [f"- `{key}` → `{name}`" for key, name in RENAMED.items()]
    lines += ["", "Refused when `true`, because ignoring them would break a promise:", ""]
    lines += [f"- `{key}`: {reason}" for key, reason in REFUSED.items()]
    return "\n".join([*lines, *_idle_table()]) + "\n"


def _idle_table() -> list[str]:
    """Return the section of RocketMQ's settings that have no effect here."""
    return [
        "",
        "## Accepted without effect",
        "",
        "RocketMQ's files work as they are, so these keys are accepted. A server that starts names those",
        "that it was given with another value than RocketMQ's default, one line each, with the reason.",
        "`pyromq broker --check -c broker.conf` does only that, and ends with status 1 if one of them would",
        "change what is promised (the column *promise*); so does `pyromq namesrv --check`. `--json` is for",
        "programs. `*` is a default that depends on the machine, or none. Where 4.9.8 and 5.3.3 differ, both",
        "are there.",
        "",
        "| RocketMQ's name | default | category | promise | why it has no effect |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| `{one.key}` | {_defaults(one)} | {one.category} | {one.promise or ''} | {one.reason} |"
            for one in sorted(IDLE.values(), key=lambda one: one.key.lower())
        ),
    ]


def _defaults(setting: Idle) -> str:
    if not setting.defaults:
        return "`*`"
    return ", ".join(f"`{value}`" for value in setting.defaults if value)


def outputs() -> dict[Path, str]:
    """Return each generated file's path, from the project's root, and its text."""
    return {Path("conf", name): conf_file(name) for name in HEAD} | {
        Path("docs/reference/settings.md"): reference()
    }


def main() -> int:
    """Write what is stale, or with `--check` only name it."""
    stale = [path for path, text in outputs().items() if _current(path) != text]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path} is stale; run tools/gen_conf.py")
        else:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(outputs()[path])
            print(f"wrote {path}")
    return 1 if stale and "--check" in sys.argv else 0


def _current(path: Path) -> str | None:
    return (ROOT / path).read_text() if (ROOT / path).exists() else None


def _about(setting: Setting) -> str:
    choices = f" One of {', '.join(setting.kind)}." if hasattr(setting.kind, "__members__") else ""
    live = " (live)" if setting.live else ""
    return f"{setting.sentence}{choices}{live}"


def _row(setting: Setting) -> str:
    sentence = _about(setting).removesuffix(" (live)").replace("|", "\\|")
    default = f"`{write_value(setting.default)}`" if write_value(setting.default) else ""
    live = "live" if setting.live else ""
    return f"| `{setting.key}` | `{setting.name}` | {default} | {live} | {sentence} |"


if __name__ == "__main__":
    sys.exit(main())
