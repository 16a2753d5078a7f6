"""A cluster written down as JSON: topics and groups, settings, figures. Under mqadmin's names."""

from typing import Any, TypeVar

import msgspec

from pyromq.cli.bars import tracked
from pyromq.cli.views.topic_views import OF_GROUPS
from pyromq.client.plans.admin.targets import BrokerPlace
from pyromq.client.plans.admin.topic_plans import TOPIC_IN
from pyromq.client.sync.admin import Admin
from pyromq.clock import SystemClock
from pyromq.errors import NetworkError, Refused
from pyromq.system_names import SCHEDULE, TRANSACTION_HALF, is_users_group, is_users_topic
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.topic_bodies import TopicConfig

#: The settings that matter to whoever plans a cluster.
SETTINGS = (
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
)
Config = TypeVar("Config", TopicConfig, SubscriptionGroupConfig)


def topics_of(admin: Admin, places: list[BrokerPlace], *, with_special: bool) -> dict[str, Any]:
    """Return the users' topics of brokers; one that is on several has the queues of all."""
    found: dict[str, TopicConfig] = {}
    for place in tracked(places, "topics of brokers"):
        for name, config in admin.topic_configs(place.address).topic_config_table.items():
            is_special = with_special and name.startswith(OF_GROUPS)
            if name not in (place.broker_name, place.cluster) and (is_special or is_users_topic(name)):
                _add(found, name, config, "read_queue_nums", "write_queue_nums")
    return {name: msgspec.to_builtins(found[name]) for name in sorted(found)}


def groups_of(admin: Admin, places: list[BrokerPlace]) -> dict[str, Any]:
    """Return the users' groups of brokers; one that is on several has the retry queues of all."""
    found: dict[str, SubscriptionGroupConfig] = {}
    for place in tracked(places, "groups of brokers"):
        for name, config in admin.group_configs(place.address).subscription_group_table.items():
            if is_users_group(name):
                _add(found, name, config, "retry_queue_nums")
    return {name: msgspec.to_builtins(found[name]) for name in sorted(found)}


def _add(found: dict[str, Config], name: str, config: Config, *counts: str) -> None:
    """Keep what a broker has; where another has it too, with the sums of both."""
    if (before := found.get(name)) is not None:
        sums = {count: getattr(before, count) + getattr(config, count) for count in counts}
        config = msgspec.structs.replace(config, **sums)
    found[name] = config


def metadata(
    admin: Admin, places: list[BrokerPlace], *, only_topics: bool, only_groups: bool, with_special: bool
) -> dict[str, Any]:
    """Return topics, groups or both."""
    result: dict[str, Any] = {"exportTime": SystemClock().now_ms()}
    if not only_groups:
        result["topicConfigTable"] = topics_of(admin, places, with_special=with_special)
    if not only_topics:
        result["subscriptionGroupTable"] = groups_of(admin, places)
    return result


def configs(admin: Admin, cluster: str, name_server_count: int) -> dict[str, Any]:
    """Return the settings of a cluster's masters, and how large it is."""
    places = admin.brokers(cluster=cluster, with_slaves=True)
    masters = [place for place in places if place.is_master]
    settings = {}
    for place in tracked(masters, "settings of brokers"):
        (said,) = admin.broker_config(address=place.address)
        settings[place.broker_name] = {name: said.values.get(name) for name in SETTINGS}
    return {
        "brokerConfigs": settings,
        "clusterScale": {
            "namesrvSize": name_server_count,
            "masterBrokerSize": len(masters),
            "slaveBrokerSize": len(places) - len(masters),
        },
    }


def metrics(admin: Admin, cluster: str) -> dict[str, Any]:
    """Return what goes through a cluster's masters, and how large they are."""
    report, tps, day = {}, _nothing(_TPS, 0.0), _nothing(_DAY, 0)
    for place in admin.brokers(cluster=cluster):
        quota = _quota(admin, place)
        report[place.broker_name] = {
            "runtimeEnv": quota.pop("runtimeEnv"),
            "runtimeQuota": quota,
            "runtimeVersion": {"clientInfo": _clients(admin, place)},
        }
        for name, total in _TPS.items():
            tps[total] += quota["tps"][name]
        for name in _DAY:
            day[name] += quota["oneDayNum"][name]
    return {"evaluateReport": report, "totalData": {"totalTps": tps, "totalOneDayNum": day}}


_TPS = {
    "normalInTps": "totalNormalInTps",
    "normalOutTps": "totalNormalOutTps",
    "transInTps": "totalTransInTps",
    "scheduleInTps": "totalScheduleInTps",
}
_DAY = {
    name: name
    for name in ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")
}


def _nothing(names: dict[str, str], zero: Any) -> dict[str, Any]:
    return dict.fromkeys(names.values(), zero)


def _quota(admin: Admin, place: BrokerPlace) -> dict[str, Any]:
    (status,) = admin.broker_status(address=place.address)
    (settings,) = admin.broker_config(address=place.address)
    said = status.values
    half = admin.broker_rates(place.address, TOPIC_IN, TRANSACTION_HALF)
    delayed = admin.broker_rates(place.address, TOPIC_IN, SCHEDULE)
    return {
        "runtimeEnv": {
            "cpuNum": settings.values.get("clientCallbackExecutorThreads"),
            "totalMemKBytes": said.get("totalMemKBytes"),
        },
        "diskRatio": {name: said.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
        "tps": {
            "normalInTps": _first(said.get("putTps")),
            "normalOutTps": _first(said.get("getTransferedTps")),
            "transInTps": half.stats_minute.tps if half else 0.0,
            "scheduleInTps": delayed.stats_minute.tps if delayed else 0.0,
        },
        "oneDayNum": {
            "normalOneDayInNum": _difference(said, "msgPutTotal"),
            "normalOneDayOutNum": _difference(said, "msgGetTotal"),
            "transOneDayInNum": half.stats_day.sum if half else 0,
            "scheduleOneDayInNum": delayed.stats_day.sum if delayed else 0,
        },
        "messageAverageSize": said.get("putMessageAverageSize"),
        "topicSize": len(topics_of(admin, [place], with_special=False)),
        "groupSize": len(groups_of(admin, [place])),
    }


def _clients(admin: Admin, place: BrokerPlace) -> list[str]:
    found: set[str] = set()
    for group in tracked(list(groups_of(admin, [place])), f"clients of {place.broker_name}"):
        try:
            members = admin.consumer_connections(group, place.address)
        except (Refused, NetworkError):
            continue
        found.update(f"{one.language}%{one.version}" for one in members.connections)
    return sorted(found)


def _first(text: str | None) -> float:
    try:
        return float((text or "").split(" ")[0])
    except ValueError:
        return 0.0


def _difference(said: Any, name: str) -> int:
    ends = said.get(f"{name}TodayMorning", ""), said.get(f"{name}YesterdayMorning", "")
    return int(ends[0]) - int(ends[1]) if all(end.isdecimal() for end in ends) else 0
