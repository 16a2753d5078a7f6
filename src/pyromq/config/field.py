"""One setting: a dataclass field that knows its sentence, its bounds and RocketMQ's name for it.

The name of a field is the snake case of RocketMQ's property, so `defaultTopicQueueNums` is
`default_topic_queue_nums`. The few that do not follow the rule (`brokerIP1`, `checkCRCOnRecover`) carry their
property name as `key`.
"""

import dataclasses
from typing import Any, Final, Literal, TypeVar

T = TypeVar("T")

PORT_MAX: Final = 65_535

#: What a text setting holds, where that is checked: an IPv4/IPv6 address or host name, a list of
#: `host:port` joined by `;`, a name that is used in file names and on the wire, delay levels, hours, a URL.
Form = Literal["text", "host", "addresses", "name", "delay_levels", "hours", "url"]


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """Metadata of one setting: everything but its value."""

    name: str
    key: str
    kind: type[Any]
    default: Any
    sentence: str
    at_least: int | None
    at_most: int | None
    form: Form
    live: bool
    secret: bool


def setting(
    default: T,
    sentence: str,
    *,
    key: str | None = None,
    at_least: int | None = 0,
    at_most: int | None = None,
    form: Form = "text",
    live: bool = False,
    secret: bool = False,
) -> T:
    """Declare a field of a settings class.

    The sentence says what it does and its unit. `live` settings may change while the process runs. `secret`
    ones are printed as stars, as are passwords in URLs; neither is in the repr of the settings. Numbers may
    not be negative unless `at_least` says so.
    """
    metadata = {
        "sentence": sentence,
        "key": key,
        "at_least": at_least,
        "at_most": at_most,
        "form": form,
        "live": live,
        "secret": secret,
    }
    # The dataclass wants its own field object where the type checker sees the value.
    declared: T = dataclasses.field(default=default, metadata=metadata, repr=not secret and form != "url")
    return declared


def settings_of(owner: type[Any]) -> list[Setting]:
    """List the settings of a settings class, in the order in which they are declared."""
    return [_describe(field) for field in dataclasses.fields(owner)]


def camel_case(name: str) -> str:
    """Return RocketMQ's spelling of a field name: `broker_name` is `brokerName`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _describe(field: "dataclasses.Field[Any]") -> Setting:
    about = field.metadata
    return Setting(
        name=field.name,
        key=about["key"] or camel_case(field.name),
        kind=type(field.default),
        default=field.default,
        sentence=about["sentence"],
        at_least=about["at_least"],
        at_most=about["at_most"],
        form=about["form"],
        live=about["live"],
        secret=about["secret"],
    )
