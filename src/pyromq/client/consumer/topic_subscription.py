"""The subscription of a topic: tags, or an SQL expression that the broker evaluates."""

from msgspec.structs import replace

from pyromq.client.names import RETRY_TOPIC_PREFIX, check_topic
from pyromq.errors import ConfigError
from pyromq.filter.tags import ALL, parse_tags, wants_all
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.java_hash import java_hash

TAG = "TAG"
SQL92 = "SQL92"


def subscription(topic: str, tags: str = ALL, sql: str | None = None, *, version: int) -> Subscription:
    """Return a subscription; raise ConfigError when it wants nothing or two things.

    The version is the time it was made: brokers keep the newest of what members say.
    """
    check_topic(topic)
    if sql is not None:
        if not wants_all(tags):
            raise ConfigError(f"topic {topic!r} is subscribed by tags and by sql; give one of them")
        if not sql.strip():
            raise ConfigError(f"the sql for topic {topic!r} is empty; leave it out to get all messages")
        return Subscription(topic=topic, sub_string=sql, expression_type=SQL92, sub_version=version)
    if wants_all(tags):
        return Subscription(topic=topic, sub_string=ALL, sub_version=version)
    names = parse_tags(tags)
    if not names:
        raise ConfigError(f"{tags!r} names no tag of topic {topic!r}; write `paid || refunded`, or `*`")
    ordered = sorted(names)
    return Subscription(
        topic=topic,
        sub_string=tags,
        tags=ordered,
        tag_codes=[java_hash(name) for name in ordered],
        sub_version=version,
    )


def retry_topic(group: str) -> str:
    """Return the topic in which a group's failed messages come again."""
    return RETRY_TOPIC_PREFIX + group


def renewed(old: Subscription, version: int) -> Subscription:
    """Return the same subscription with a newer version; versions never go back."""
    return replace(old, sub_version=max(version, old.sub_version + 1))
