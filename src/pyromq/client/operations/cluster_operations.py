"""Questions and changes of operators: topics, groups, offsets, brokers, name servers and accounts."""

from collections.abc import Collection, Mapping

from pyromq.client.operations.declaration import ClientOperations, Operation
from pyromq.client.plans.admin import account_plans as ops_access
from pyromq.client.plans.admin import brokers as ops_brokers
from pyromq.client.plans.admin import group_plans as ops_groups
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.admin import offset_changes as ops_offsets
from pyromq.client.plans.admin import scaling_plans
from pyromq.client.plans.admin import targets as ops_places
from pyromq.client.plans.admin import topic_plans as ops_topics
from pyromq.client.plans.admin.account_plans import AccessVersions, AccountChange
from pyromq.client.plans.admin.brokers import Said
from pyromq.client.plans.admin.group_plans import ConsumeProgress, GroupOverview
from pyromq.client.plans.admin.offset_changes import Move, Reset, ResetQuery, Target
from pyromq.client.plans.admin.scaling_plans import ServerReply, TopicUpdate
from pyromq.client.plans.admin.targets import BrokerPlace, Silence
from pyromq.client.plans.admin.topic_plans import Flow
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import RequestCode
from pyromq.model import MessageQueue, ReceivedMessage, TopicType
from pyromq.wire.bodies.connection_bodies import ConsumerConnections, MemberConnection
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyromq.wire.bodies.operation_bodies import GroupLag, ProducerClient, QueueRows, Rates
from pyromq.wire.bodies.request_mode_bodies import RequestModeSetting
from pyromq.wire.bodies.running_info import DirectConsumption
from pyromq.wire.bodies.topic_bodies import TopicConfigTable
from pyromq.wire.headers.operation_headers import QueryConsumeQueue

#: Milliseconds that an operator's question may take unless it says otherwise (RocketMQ's MQAdminImpl).
TIMEOUT_MS = 6_000


class ClusterOperations(ClientOperations):
    """Topics, groups, offsets, brokers and name servers, as `pyromq admin` needs them.

    A change for several servers is sent to each of them, even if one refuses it; the answer of each server
    comes back (`ServerReply.failure`).
    """

    # Topics

    @Operation
    def topics(self) -> Plan[list[str]]:
        """Return the names of all topics that a name server knows, sorted."""
        return admin.topics(self._session, self._deadline())

    @Operation
    def brokers(
        self, *, cluster: str | None = None, address: str | None = None, with_slaves: bool = False
    ) -> Plan[list[BrokerPlace]]:
        """Return the brokers of a cluster, or all; raises NoRoute when there are none."""
        return ops_places.places(
            self._session,
            self._deadline(),
            cluster_name=cluster,
            address=address,
            with_slaves=with_slaves,
        )

    @Operation
    def update_topic(
        self, update: TopicUpdate, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[ServerReply]]:
        """Create or change a topic on every master of a cluster, or on the broker at an address."""
        return scaling_plans.update_topic(
            self._session, update, cluster_name=cluster, address=address, deadline=self._deadline()
        )

    @Operation
    def delete_topic(self, topic: str, cluster: str | None = None) -> Plan[list[ServerReply]]:
        """Delete a topic on all masters of a cluster (or wherever it is), and in all name servers."""
        return ops_topics.delete_topic(self._session, topic, cluster, self._deadline())

    @Operation
    def set_topic_perm(
        self, topic: str, perm: int, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[tuple[ServerReply, int]]]:
        """Change what may be done with a topic; return what each broker said, and what was allowed before."""
        return ops_topics.set_topic_perm(
            self._session, topic, perm, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def topic_status(
        self, topic: str, silence: Silence | None = None
    ) -> Plan[dict[MessageQueue, TopicOffset]]:
        """Return begin, end and last time of each of a topic's queues; raises TopicNotFound.

        A broker that does not answer is an error, or is noted in `silence`, and its queues left out.
        """
        return ops_topics.topic_status(self._session, topic, self._deadline(), silence)

    @Operation
    def topic_types(self, topic: str, silence: Silence | None = None) -> Plan[dict[str, TopicType]]:
        """Return the type of a topic's messages on each of its brokers, by name; raises TopicNotFound.

        A broker that does not say is an error, or is noted in `silence`, and left out.
        """
        return ops_topics.topic_types(self._session, topic, self._deadline(), silence)

    @Operation
    def topic_clusters(self, topic: str) -> Plan[list[str]]:
        """Return the clusters that have a topic."""
        return ops_topics.topic_clusters(self._session, topic, self._deadline())

    @Operation
    def topic_readers(self, topic: str, silence: Silence | None = None) -> Plan[list[str]]:
        """Return the groups that subscribe to a topic or have progress in it."""
        return ops_topics.topic_readers(self._session, topic, self._deadline(), silence)

    @Operation
    def topic_configs(self, address: str) -> Plan[TopicConfigTable]:
        """Return all topics of one broker."""
        return ops_topics.topic_configs(self._session, address)

    @Operation
    def topic_flows(self, topic: str, silence: Silence | None = None) -> Plan[list[Flow]]:
        """Return how much goes into a topic (the first), and out of it to each group."""
        return ops_topics.topic_flows(self._session, topic, self._deadline(), silence)

    @Operation
    def broker_rates(self, address: str, name: str, key: str) -> Plan[Rates | None]:
        """Return what a broker counted under a name (TOPIC_PUT_NUMS, …) and a key; None: nothing yet."""
        return ops_topics.broker_rates(self._session, address, name, key)

    @Operation
    def order_conf(self, topic: str) -> Plan[str | None]:
        """Return how many queues of an ordered topic each broker has; None: it is not ordered."""
        return ops_topics.order_conf(self._session, topic, self._deadline())

    @Operation
    def set_order_conf(self, topic: str, value: str | None) -> Plan[list[ServerReply]]:
        """Say at every name server how many queues of an ordered topic each broker has; None: no more."""
        return ops_topics.set_order_conf(self._session, topic, value)

    # Groups

    @Operation
    def group_configs(self, address: str) -> Plan[SubscriptionGroupTable]:
        """Return all consumer groups of one broker."""
        return ops_groups.group_configs(self._session, address)

    @Operation
    def all_group_configs(
        self, silence: Silence | None = None
    ) -> Plan[dict[BrokerPlace, SubscriptionGroupTable]]:
        """Return the consumer groups of each master; with `silence`, of each that answers."""
        return ops_groups.all_group_configs(self._session, self._deadline(), silence)

    @Operation
    def update_group(
        self, config: SubscriptionGroupConfig, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[ServerReply]]:
        """Create or change a consumer group on one broker, or on all masters of a cluster or of all."""
        return ops_groups.update_group(
            self._session, config, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def set_request_mode(
        self, setting: RequestModeSetting, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[ServerReply]]:
        """Say how the members of a group consume a topic: each pulls its own queues, or all pop."""
        return ops_groups.set_request_mode(
            self._session, setting, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def delete_group(
        self,
        group: str,
        *,
        cluster: str | None = None,
        address: str | None = None,
        removes_offsets: bool = False,
        keeps_topics: bool = False,
    ) -> Plan[list[ServerReply]]:
        """Delete a consumer group; unless on one broker only, with its retry and dead-letter topics."""
        return ops_groups.delete_group(
            self._session,
            group,
            self._deadline(),
            cluster_name=cluster,
            address=address,
            removes_offsets=removes_offsets,
            keeps_topics=keeps_topics,
        )

    @Operation
    def group_progress(
        self, group: str, topic: str | None = None, silence: Silence | None = None
    ) -> Plan[ConsumeProgress]:
        """Return how far a group got in each queue, of one topic or of all."""
        return ops_groups.group_progress(self._session, group, topic, self._deadline(), silence)

    @Operation
    def group_overview(self, group: str, silence: Silence | None = None) -> Plan[GroupOverview]:
        """Return a group in one line: members, type, rate, lag."""
        return ops_groups.group_overview(self._session, group, self._deadline(), silence)

    @Operation
    def consumer_connections(
        self, group: str, address: str | None = None, silence: Silence | None = None
    ) -> Plan[ConsumerConnections]:
        """Return who is in a consumer group; raises Refused (CONSUMER_NOT_ONLINE) when nobody is."""
        return ops_groups.consumer_connections(self._session, group, address, self._deadline(), silence)

    @Operation
    def producer_connections(self, group: str, topic: str) -> Plan[list[MemberConnection]]:
        """Return the members of a producer group at the brokers of a topic."""
        return ops_groups.producer_connections(self._session, group, topic, self._deadline())

    @Operation
    def broker_producers(self, address: str) -> Plan[dict[str, list[ProducerClient]]]:
        """Return all producers that are connected to a broker, by group."""
        return ops_groups.broker_producers(self._session, address)

    @Operation
    def broker_lags(
        self, address: str, *, only_ordered: bool = False, timeout_ms: int | None = None
    ) -> Plan[dict[str, list[GroupLag]]]:
        """Return how far behind all groups of a broker are, by group, a lag for each topic."""
        return ops_groups.broker_lags(
            self._session, address, only_ordered=only_ordered, timeout_ms=timeout_ms
        )

    @Operation
    def client_offsets(
        self, group: str, topic: str, client_id: str = ""
    ) -> Plan[dict[str, dict[MessageQueue, int]]]:
        """Return how far each member of a group says that it is in its queues of a topic."""
        return ops_groups.client_offsets(self._session, group, topic, client_id, self._deadline())

    # Offsets

    @Operation
    def look_at_reset(
        self,
        group: str,
        topic: str,
        target: Target,
        *,
        queues: Collection[tuple[str, int]] = (),
        only_back: bool = False,
    ) -> Plan[Reset]:
        """Return what `reset_offsets` would do to each queue; nothing is changed."""
        query = ResetQuery(group, topic, target, queues, only_back)
        return ops_offsets.look_at_reset(self._session, query, self._deadline())

    @Operation
    def reset_offsets(
        self,
        group: str,
        topic: str,
        target: Target,
        *,
        queues: Collection[tuple[str, int]] = (),
        only_back: bool = False,
        past_members: bool = False,
    ) -> Plan[Reset]:
        """Let a group go on elsewhere, forward or back, with members connected or none; tell what was done.

        Raises GroupOnline when members are there and their broker, one of Apache's, cannot tell them.
        """
        query = ResetQuery(group, topic, target, queues, only_back, past_members)
        return ops_offsets.reset_offsets(self._session, query, self._deadline())

    @Operation
    def clone_offsets(self, source: str, target: str, topic: str) -> Plan[list[Move]]:
        """Let a group go on where another is, in one topic."""
        return ops_offsets.clone_offsets(self._session, source, target, topic, self._deadline())

    # Brokers and name servers

    @Operation
    def broker_status(self, *, cluster: str | None = None, address: str | None = None) -> Plan[list[Said]]:
        """Return what brokers say of themselves: one, those of a cluster, or all."""
        return ops_brokers.broker_status(
            self._session, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def broker_config(self, *, cluster: str | None = None, address: str | None = None) -> Plan[list[Said]]:
        """Return brokers' settings; secret values are hidden."""
        return ops_brokers.broker_config(
            self._session, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def update_broker_config(
        self, changes: Mapping[str, str], *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[ServerReply]]:
        """Change settings of a broker, or of all masters of a cluster."""
        return ops_brokers.update_broker_config(
            self._session, changes, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def name_server_config(self) -> Plan[list[Said]]:
        """Return the settings of each name server."""
        return ops_brokers.name_server_config(self._session)

    @Operation
    def update_name_server_config(self, changes: Mapping[str, str]) -> Plan[list[ServerReply]]:
        """Change settings of every name server."""
        return ops_brokers.update_name_server_config(self._session, changes)

    @Operation
    def clean(
        self, code: RequestCode, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[ServerReply]]:
        """Have brokers clean up: CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC, DELETE_EXPIRED_COMMITLOG."""
        return ops_brokers.clean(self._session, code, self._deadline(), cluster_name=cluster, address=address)

    @Operation
    def put_key_value(self, namespace: str, key: str, value: str | None) -> Plan[list[ServerReply]]:
        """Set a key of a namespace at every name server; None removes it."""
        return ops_brokers.put_key_value(self._session, namespace, key, value)

    @Operation
    def key_values(self, namespace: str) -> Plan[dict[str, str]]:
        """Return all keys of a namespace."""
        return ops_brokers.key_values(self._session, namespace)

    @Operation
    def queue_entries(self, address: str, query: QueryConsumeQueue) -> Plan[tuple[QueueRows, str | None]]:
        """Return entries of a queue's index on one broker, and what it remarks when there are none."""
        return ops_brokers.queue_entries(self._session, address, query)

    @Operation
    def consume_directly(
        self, address: str, group: str, client_id: str, offset_message_id: str
    ) -> Plan[DirectConsumption]:
        """Have one consumer consume one message now."""
        return ops_brokers.consume_directly(self._session, address, group, client_id, offset_message_id)

    # Accounts

    @Operation
    def update_account(
        self, account: AccountChange, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[ServerReply]]:
        """Add or change an account of brokers with aclEnable."""
        return ops_access.update_account(
            self._session, account, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def delete_account(
        self, access_key: str, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[ServerReply]]:
        """Remove an account."""
        return ops_access.delete_account(
            self._session, access_key, self._deadline(), cluster_name=cluster, address=address
        )

    @Operation
    def update_white_addresses(
        self,
        addresses: str,
        *,
        path: str | None = None,
        cluster: str | None = None,
        address: str | None = None,
    ) -> Plan[list[ServerReply]]:
        """Change the addresses that need no signature, joined by commas."""
        return ops_access.update_white_addresses(
            self._session,
            addresses,
            path,
            self._deadline(),
            cluster_name=cluster,
            address=address,
        )

    @Operation
    def access_versions(
        self, *, cluster: str | None = None, address: str | None = None
    ) -> Plan[list[AccessVersions]]:
        """Return how often brokers' account files were changed."""
        return ops_access.access_versions(
            self._session, self._deadline(), cluster_name=cluster, address=address
        )

    # Messages

    @Operation
    def messages_by_id(self, topic: str, message_id: str) -> Plan[list[ReceivedMessage]]:
        """Return all messages with a unique id, oldest first; more than one if it was sent again."""
        return admin.messages_by_id(self._session, topic, message_id, self._deadline())

    def _deadline(self) -> Deadline:
        return self._session.deadline(None, TIMEOUT_MS)
