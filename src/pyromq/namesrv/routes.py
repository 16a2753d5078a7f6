"""Every request that the name server answers, on one page.

A code that is not here is not answered at all, as in RocketMQ 4.9; one log line tells it.
"""

from typing import Any

from pyromq.codes import RequestCode
from pyromq.namesrv.handlers import BrokerHandlers, KeyValueHandlers, RouteHandlers, SettingsHandlers
from pyromq.net.routes import Request, Route
from pyromq.wire.headers import namesrv as headers


def namesrv_routes(
    *,
    brokers: BrokerHandlers,
    routes: RouteHandlers,
    key_values: KeyValueHandlers,
    settings: SettingsHandlers,
) -> list[Route[Any]]:
    """Return the routes, by area."""
    code = RequestCode
    return [
        # Brokers
        Route(code.REGISTER_BROKER, brokers.register, headers.RegisterBroker),
        Route(code.UNREGISTER_BROKER, brokers.unregister, headers.UnregisterBroker),
        Route(code.QUERY_DATA_VERSION, brokers.query_version, headers.QueryDataVersion),
        # Clients
        Route(code.GET_ROUTEINFO_BY_TOPIC, routes.route, headers.GetRouteInfo),
        # Operators: what there is
        Route(code.GET_BROKER_CLUSTER_INFO, routes.cluster),
        Route(code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, routes.topics),
        Route(code.GET_TOPICS_BY_CLUSTER, routes.topics_of_cluster, headers.GetTopicsByCluster),
        Route(code.GET_SYSTEM_TOPIC_LIST_FROM_NS, routes.system_topics),
        Route(code.GET_UNIT_TOPIC_LIST, routes.unit_topics),
        Route(code.GET_HAS_UNIT_SUB_TOPIC_LIST, routes.unit_sub_topics),
        Route(code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, routes.unit_sub_ununit_topics),
        # Operators: what should be
        Route(code.DELETE_TOPIC_IN_NAMESRV, routes.delete_topic, headers.DeleteTopicInNamesrv),
        Route(code.WIPE_WRITE_PERM_OF_BROKER, routes.wipe_write_permission, headers.WipeWritePermOfBroker),
        Route(code.ADD_WRITE_PERM_OF_BROKER, routes.add_write_permission, headers.AddWritePermOfBroker),
        Route(code.PUT_KV_CONFIG, key_values.put, headers.PutKvConfig),
        Route(code.GET_KV_CONFIG, key_values.get, headers.GetKvConfig, refusal_ext={}),
        Route(code.DELETE_KV_CONFIG, key_values.delete, headers.DeleteKvConfig),
        Route(code.GET_KVLIST_BY_NAMESPACE, key_values.namespace, headers.GetKvListByNamespace),
        Route(code.GET_NAMESRV_CONFIG, settings.get),
        Route(code.UPDATE_NAMESRV_CONFIG, settings.update),
    ]


def unanswered(request: Request[None]) -> None:
    """Leave a code that is not on this page without an answer."""
