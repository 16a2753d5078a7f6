"""Settings of RocketMQ that a user gave and that have no effect here.

A broker.conf that works with RocketMQ works here as it is, so its keys are accepted. A key that does nothing
must not be found out in production: `unheeded` tells of one whose value is not RocketMQ's default, with the
reason and the promise that it would have changed.
"""

from dataclasses import dataclass

from pyromq.config.field import settings_of
from pyromq.config.idle_table import GROUPS, Idle
from pyromq.config.rocketmq import NO_EFFECT
from pyromq.config.setting_names import SERVER_CLASSES, our_name
from pyromq.config.values import Value, write_value

#: Every setting without effect, by RocketMQ's name.
IDLE = {one.key: one for group in GROUPS for one in group.settings() if one.key in NO_EFFECT}
#: Settings without effect whose value is not shown: a password or a token may be in it.
SECRET = frozenset({"initAuthenticationUser", "metricsGrpcExporterHeader", "socksProxyConfig"})


@dataclass(frozen=True, slots=True)
class Unheeded:
    """A setting that a user gave, with a value that is not RocketMQ's default, and that has no effect."""

    setting: Idle
    value: str
    source: str

    def __str__(self) -> str:
        """Return one line that says where it stands, what it is, and why it does nothing."""
        key, promise = self.setting.key, self.setting.promise
        promised = f" ({promise})" if promise else ""
        return f"{self.source}: {key}={self.value} has no effect{promised}: {self.setting.reason}"

    def as_record(self) -> dict[str, str | None]:
        """Return the same for programs."""
        about = self.setting
        return {
            "key": about.key,
            "value": self.value,
            "default": " or ".join(about.defaults) if about.defaults else None,
            "source": self.source,
            "category": about.category,
            "reason": about.reason,
            "promise": about.promise and about.promise.value,
        }


def unheeded(key: str, value: Value, source: str) -> Unheeded | None:
    """Return what to tell of a key that has no effect in this process; None if its value changes nothing."""
    other = _SERVER_SETTINGS.get(our_name(key))
    if key in IDLE:
        setting = IDLE[key]
    elif other is not None:
        default = write_value(other.default)
        setting = Idle(key, (default,), "other server", "this server has no such setting")
    else:
        setting = Idle(key, (), "Java", "it is a property of RocketMQ's Java process")
    if setting.changes_nothing(value):
        return None
    is_secret = key in SECRET or (other is not None and (other.secret or other.form == "url"))
    return Unheeded(setting, "******" if is_secret else write_value(value).strip(), source)


_SERVER_SETTINGS = {one.name: one for owner in SERVER_CLASSES for one in settings_of(owner)}
