"""One value: from the text of a file, a variable or a flag to its type, and back."""

import ipaddress
import re
from collections.abc import Callable
from enum import StrEnum

from pyromq.config.field import Form, Setting
from pyromq.name_rules import TOPIC_CHARACTERS_MAX

Value = str | int | bool

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_NAME = re.compile(rf"[%|A-Za-z0-9_-][%|A-Za-z0-9._-]{{0,{TOPIC_CHARACTERS_MAX - 1}}}")
_DELAY_LEVEL = re.compile(r"[0-9]+[smhd]")
_HOUR = re.compile(r"[0-9]|[01][0-9]|2[0-3]")


def read_value(setting: Setting, given: Value) -> Value:
    """Return the value in the setting's type, or raise ValueError that says what was expected."""
    if setting.kind is bool:
        return _read_bool(given)
    if setting.kind is int:
        return _read_int(setting, given)
    text = write_value(given).strip()
    if issubclass(setting.kind, StrEnum):
        return _read_choice(setting.kind, text)
    _FORMS[setting.form](text)
    return text


def write_value(value: Value) -> str:
    """Return a value as RocketMQ writes it: `true`, `10911`, `ASYNC_FLUSH`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _read_bool(given: Value) -> bool:
    if isinstance(given, bool):
        return given
    text = str(given).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"expected true or false, not {_quoted(given)}")
    return text == "true"


def _read_int(setting: Setting, given: Value) -> int:
    text = write_value(given).strip()
    # Nineteen digits hold every Java long; more would only slow the conversion down.
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise ValueError(f"expected a whole number, not {_quoted(given)}")
    number = int(text)
    if setting.at_least is not None and number < setting.at_least:
        raise ValueError(f"expected {setting.at_least} or more, not {number}")
    if setting.at_most is not None and number > setting.at_most:
        raise ValueError(f"expected {setting.at_most} or less, not {number}")
    return number


def _read_choice(kind: type[StrEnum], text: str) -> StrEnum:
    for choice in kind:
        if choice.value.lower() == text.lower():
            return choice
    raise ValueError(f"expected {' or '.join(kind)}, not {_quoted(text)}")


def _quoted(given: Value) -> str:
    text = write_value(given)
    hint = "; a comment needs a line of its own" if "#" in text else ""
    return f"{text!r}{hint}"


def _check_text(text: str) -> None:
    if "\n" in text or "\x00" in text:
        raise ValueError(f"expected one line of text, not {text!r}")


def _check_host(text: str) -> None:
    if not text or _is_host(text):
        return
    if _is_host(text.rpartition(":")[0]):
        raise ValueError(f"expected an address without a port, not {text!r}")
    raise ValueError(f"expected an IP address or a host name, not {text!r}")


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True


def _check_addresses(text: str) -> None:
    for address in filter(None, text.split(";")):
        host, _, port = address.strip().rpartition(":")
        if not _is_host(host.removeprefix("[").removesuffix("]")) or not _is_port(port):
            raise ValueError(f"expected host:port joined by semicolons, as 127.0.0.1:9876, not {text!r}")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) <= 65_535


def _check_name(text: str) -> None:
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"expected 1 to {TOPIC_CHARACTERS_MAX} letters, digits, '_', '-', '.', '%' or '|', the first not "
            f"'.'; not {text!r}"
        )


def _check_delay_levels(text: str) -> None:
    levels = text.split(" ")
    if not all(_DELAY_LEVEL.fullmatch(level) for level in levels):
        raise ValueError(
            f"expected delays with s, m, h or d joined by single spaces, as '1s 5m 2h', not {text!r}"
        )


def _check_hours(text: str) -> None:
    if not all(_HOUR.fullmatch(hour.strip()) for hour in text.split(";")):
        raise ValueError(f"expected hours from 0 to 23 joined by semicolons, as '04' or '2;14', not {text!r}")


_FORMS: dict[Form, Callable[[str], None]] = {
    "text": _check_text,
    "host": _check_host,
    "addresses": _check_addresses,
    "name": _check_name,
    "delay_levels": _check_delay_levels,
    "hours": _check_hours,
    "url": _check_text,
}
