"""Every request that the name server answers, and what is to be known of it, on one page.

A code that is not here is not answered at all, as in RocketMQ 4.9; one log line tells it. The name server
asks for no account, stores no message and is nobody's slave, so its routes have no more facts than these.
"""

from typing import Any

from pyromq.codes import RequestCode
from pyromq.namesrv.handlers import BrokerHandlers, KeyValueHandlers, RouteHandlers, SettingsHandlers
from pyromq.net.routes import BodyLimit, Request, Route
from pyromq.wire.headers import namesrv_headers as h

_FIELDS_ONLY, _NAMES, _TABLES = BodyLimit.FIELDS_ONLY, BodyLimit.NAMES, BodyLimit.MESSAGES
Routes = list[Route[Any]]


def namesrv_routes(
    *,
    brokers: BrokerHandlers,
    routes: RouteHandlers,
    key_values: KeyValueHandlers,
    settings: SettingsHandlers,
) -> Routes:
    """Return the routes, by area."""
    return [
        *_broker_routes(brokers),
        *_topic_routes(routes),
        *_permission_routes(routes),
        *_setting_routes(key_values, settings),
    ]


def _broker_routes(brokers: BrokerHandlers) -> Routes:
    code = RequestCode
    return [
        # A broker's whole table of topics is in it.
        Route(code.REGISTER_BROKER, brokers.register, h.RegisterBroker, h.RegisterBrokerAnswer, _TABLES),
        Route(code.UNREGISTER_BROKER, brokers.unregister, h.UnregisterBroker, None, _FIELDS_ONLY),
        Route(
            code.QUERY_DATA_VERSION,
            brokers.query_version,
            h.QueryDataVersion,
            h.QueryDataVersionAnswer,
            _FIELDS_ONLY,
        ),
    ]


def _topic_routes(routes: RouteHandlers) -> Routes:
    """Return the routes that read topics and brokers: the first is for clients, the others for operators."""
    code = RequestCode
    return [
        Route(code.GET_ROUTEINFO_BY_TOPIC, routes.route, h.GetRouteInfo, None, _FIELDS_ONLY),
        Route(code.GET_BROKER_CLUSTER_INFO, routes.cluster, None, None, _FIELDS_ONLY),
        Route(code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, routes.topics, None, None, _FIELDS_ONLY),
        Route(code.GET_TOPICS_BY_CLUSTER, routes.topics_of_cluster, h.GetTopicsByCluster, None, _FIELDS_ONLY),
        Route(code.GET_SYSTEM_TOPIC_LIST_FROM_NS, routes.system_topics, None, None, _FIELDS_ONLY),
        Route(code.GET_UNIT_TOPIC_LIST, routes.unit_topics, None, None, _FIELDS_ONLY),
        Route(code.GET_HAS_UNIT_SUB_TOPIC_LIST, routes.unit_sub_topics, None, None, _FIELDS_ONLY),
        Route(
            code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, routes.unit_sub_ununit_topics, None, None, _FIELDS_ONLY
        ),
    ]


def _permission_routes(routes: RouteHandlers) -> Routes:
    """Return the routes that change topics and write permissions."""
    code = RequestCode
    return [
        Route(code.DELETE_TOPIC_IN_NAMESRV, routes.delete_topic, h.DeleteTopicInNamesrv, None, _FIELDS_ONLY),
        Route(
            code.WIPE_WRITE_PERM_OF_BROKER,
            routes.wipe_write_permission,
            h.WipeWritePermOfBroker,
            h.WipeWritePermOfBrokerAnswer,
            _FIELDS_ONLY,
        ),
        Route(
            code.ADD_WRITE_PERM_OF_BROKER,
            routes.add_write_permission,
            h.AddWritePermOfBroker,
            h.AddWritePermOfBrokerAnswer,
            _FIELDS_ONLY,
        ),
    ]


def _setting_routes(key_values: KeyValueHandlers, settings: SettingsHandlers) -> Routes:
    """Return the routes that read and change key values and settings."""
    code = RequestCode
    return [
        Route(code.PUT_KV_CONFIG, key_values.put, h.PutKvConfig, None, _FIELDS_ONLY),
        Route(
            code.GET_KV_CONFIG,
            key_values.get,
            h.GetKvConfig,
            h.GetKvConfigAnswer,
            _FIELDS_ONLY,
            refusal_ext={},
        ),
        Route(code.DELETE_KV_CONFIG, key_values.delete, h.DeleteKvConfig, None, _FIELDS_ONLY),
        Route(code.GET_KVLIST_BY_NAMESPACE, key_values.namespace, h.GetKvListByNamespace, None, _FIELDS_ONLY),
        Route(code.GET_NAMESRV_CONFIG, settings.get, None, None, _FIELDS_ONLY),
        Route(code.UPDATE_NAMESRV_CONFIG, settings.update, None, None, _NAMES),
    ]


def unanswered(request: Request[None]) -> None:
    """Leave a code that is not on this page without an answer."""
