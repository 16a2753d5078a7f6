"""What operators ask and change, for the awaitable admin client."""

from collections.abc import Collection, Mapping

from pyromq.client.aio.runner import Runner
from pyromq.client.plans import (
    admin,
    ops_access,
    ops_brokers,
    ops_groups,
    ops_offsets,
    ops_places,
    ops_topics,
    scaling,
)
from pyromq.client.plans.ops_access import AccessVersions, AccountChange
from pyromq.client.plans.ops_brokers import Said
from pyromq.client.plans.ops_groups import GroupOverview, Progress
from pyromq.client.plans.ops_offsets import Move, Reset, ResetQuery, Target
from pyromq.client.plans.ops_places import Place, Silence
from pyromq.client.plans.ops_topics import Flow
from pyromq.client.plans.scaling import Told, TopicUpdate
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire.bodies.connections import Connection, ConsumerConnections
from pyromq.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.wire.bodies.offsets import TopicOffset
from pyromq.wire.bodies.operations import GroupLag, ProducerClient, QueueRows, Rates
from pyromq.wire.bodies.running import DirectConsumption
from pyromq.wire.bodies.topics import TopicConfigTable
from pyromq.wire.headers.operations import QueryConsumeQueue


class Operations:
    """Topics, groups, offsets, brokers and name servers, as `pyromq admin` needs them.

    Where several servers are told something, each is told whatever the others say, and what each said comes
    back (`Told.failure`).
    """

    _runner: Runner

    # Topics

    async def topics(self) -> list[str]:
        """Return the names of all topics that a name server knows, sorted."""
        return await self._runner.run(admin.topics(self._runner.session, self._deadline()))

    async def brokers(
        self, *, cluster: str | None = None, address: str | None = None, with_slaves: bool = False
    ) -> list[Place]:
        """Return the brokers of a cluster, or all; raises NoRoute when there are none."""
        return await self._runner.run(
            ops_places.places(
                self._runner.session,
                self._deadline(),
                cluster_name=cluster,
                address=address,
                with_slaves=with_slaves,
            )
        )

    async def update_topic(
        self, update: TopicUpdate, *, cluster: str | None = None, address: str | None = None
    ) -> list[Told]:
        """Create or change a topic on every master of a cluster, or on the broker at an address."""
        return await self._runner.run(
            scaling.update_topic(
                self._runner.session, update, cluster_name=cluster, address=address, deadline=self._deadline()
            )
        )

    async def delete_topic(self, topic: str, cluster: str | None = None) -> list[Told]:
        """Delete a topic on all masters of a cluster (or wherever it is), and in all name servers."""
        return await self._runner.run(
            ops_topics.delete_topic(self._runner.session, topic, cluster, self._deadline())
        )

    async def set_topic_perm(
        self, topic: str, perm: int, *, cluster: str | None = None, address: str | None = None
    ) -> list[tuple[Told, int]]:
        """Change what may be done with a topic; return what each broker said, and what was allowed before."""
        return await self._runner.run(
            ops_topics.set_topic_perm(
                self._runner.session, topic, perm, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def topic_status(
        self, topic: str, silence: Silence | None = None
    ) -> dict[MessageQueue, TopicOffset]:
        """Return begin, end and last time of each of a topic's queues; raises TopicNotFound.

        A broker that does not answer is an error, or is noted in `silence`, and its queues left out.
        """
        return await self._runner.run(
            ops_topics.topic_status(self._runner.session, topic, self._deadline(), silence)
        )

    async def topic_clusters(self, topic: str) -> list[str]:
        """Return the clusters that have a topic."""
        return await self._runner.run(
            ops_topics.topic_clusters(self._runner.session, topic, self._deadline())
        )

    async def topic_readers(self, topic: str, silence: Silence | None = None) -> list[str]:
        """Return the groups that subscribe to a topic or have progress in it."""
        return await self._runner.run(
            ops_topics.topic_readers(self._runner.session, topic, self._deadline(), silence)
        )

    async def topic_configs(self, address: str) -> TopicConfigTable:
        """Return all topics of one broker."""
        return await self._runner.run(ops_topics.topic_configs(self._runner.session, address))

    async def topic_flows(self, topic: str, silence: Silence | None = None) -> list[Flow]:
        """Return how much goes into a topic (the first), and out of it to each group."""
        return await self._runner.run(
            ops_topics.topic_flows(self._runner.session, topic, self._deadline(), silence)
        )

    async def broker_rates(self, address: str, name: str, key: str) -> Rates | None:
        """Return what a broker counted under a name (TOPIC_PUT_NUMS, …) and a key; None: nothing yet."""
        return await self._runner.run(ops_topics.broker_rates(self._runner.session, address, name, key))

    async def order_conf(self, topic: str) -> str | None:
        """Return how many queues of an ordered topic each broker has; None: it is not ordered."""
        return await self._runner.run(ops_topics.order_conf(self._runner.session, topic, self._deadline()))

    async def set_order_conf(self, topic: str, value: str | None) -> list[Told]:
        """Say at every name server how many queues of an ordered topic each broker has; None: no more."""
        return await self._runner.run(ops_topics.set_order_conf(self._runner.session, topic, value))

    # Groups

    async def group_configs(self, address: str) -> SubscriptionGroupTable:
        """Return all consumer groups of one broker."""
        return await self._runner.run(ops_groups.group_configs(self._runner.session, address))

    async def all_group_configs(self, silence: Silence | None = None) -> dict[Place, SubscriptionGroupTable]:
        """Return the consumer groups of each master; with `silence`, of each that answers."""
        return await self._runner.run(
            ops_groups.all_group_configs(self._runner.session, self._deadline(), silence)
        )

    async def update_group(
        self, config: SubscriptionGroupConfig, *, cluster: str | None = None, address: str | None = None
    ) -> list[Told]:
        """Create or change a consumer group on one broker, or on all masters of a cluster or of all."""
        return await self._runner.run(
            ops_groups.update_group(
                self._runner.session, config, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def delete_group(
        self,
        group: str,
        *,
        cluster: str | None = None,
        address: str | None = None,
        removes_offsets: bool = False,
        keeps_topics: bool = False,
    ) -> list[Told]:
        """Delete a consumer group; unless on one broker only, with its retry and dead-letter topics."""
        return await self._runner.run(
            ops_groups.delete_group(
                self._runner.session,
                group,
                self._deadline(),
                cluster_name=cluster,
                address=address,
                removes_offsets=removes_offsets,
                keeps_topics=keeps_topics,
            )
        )

    async def group_progress(
        self, group: str, topic: str | None = None, silence: Silence | None = None
    ) -> Progress:
        """Return how far a group got in each queue, of one topic or of all."""
        return await self._runner.run(
            ops_groups.group_progress(self._runner.session, group, topic, self._deadline(), silence)
        )

    async def group_overview(self, group: str, silence: Silence | None = None) -> GroupOverview:
        """Return a group in one line: members, type, rate, lag."""
        return await self._runner.run(
            ops_groups.group_overview(self._runner.session, group, self._deadline(), silence)
        )

    async def consumer_connections(
        self, group: str, address: str | None = None, silence: Silence | None = None
    ) -> ConsumerConnections:
        """Return who is in a consumer group; raises Refused (CONSUMER_NOT_ONLINE) when nobody is."""
        return await self._runner.run(
            ops_groups.consumer_connections(self._runner.session, group, address, self._deadline(), silence)
        )

    async def producer_connections(self, group: str, topic: str) -> list[Connection]:
        """Return the members of a producer group at the brokers of a topic."""
        return await self._runner.run(
            ops_groups.producer_connections(self._runner.session, group, topic, self._deadline())
        )

    async def broker_producers(self, address: str) -> dict[str, list[ProducerClient]]:
        """Return all producers that are connected to a broker, by group."""
        return await self._runner.run(ops_groups.broker_producers(self._runner.session, address))

    async def broker_lags(
        self, address: str, *, only_ordered: bool = False, timeout_ms: int | None = None
    ) -> dict[str, list[GroupLag]]:
        """Return how far behind all groups of a broker are, by group, a lag for each topic."""
        return await self._runner.run(
            ops_groups.broker_lags(
                self._runner.session, address, only_ordered=only_ordered, timeout_ms=timeout_ms
            )
        )

    async def client_offsets(
        self, group: str, topic: str, client_id: str = ""
    ) -> dict[str, dict[MessageQueue, int]]:
        """Return how far each member of a group says that it is in its queues of a topic."""
        return await self._runner.run(
            ops_groups.client_offsets(self._runner.session, group, topic, client_id, self._deadline())
        )

    # Offsets

    async def look_at_reset(
        self,
        group: str,
        topic: str,
        target: Target,
        *,
        queues: Collection[tuple[str, int]] = (),
        only_back: bool = False,
    ) -> Reset:
        """Return what `reset_offsets` would do to each queue; nothing is changed."""
        query = ResetQuery(group, topic, target, queues, only_back)
        return await self._runner.run(
            ops_offsets.look_at_reset(self._runner.session, query, self._deadline())
        )

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        target: Target,
        *,
        queues: Collection[tuple[str, int]] = (),
        only_back: bool = False,
        past_members: bool = False,
    ) -> Reset:
        """Let a group go on elsewhere, forward or back, with members connected or none; tell what was done.

        Raises GroupOnline when members are there and their broker, one of Apache's, cannot tell them.
        """
        query = ResetQuery(group, topic, target, queues, only_back, past_members)
        return await self._runner.run(
            ops_offsets.reset_offsets(self._runner.session, query, self._deadline())
        )

    async def clone_offsets(self, source: str, target: str, topic: str) -> list[Move]:
        """Let a group go on where another is, in one topic."""
        return await self._runner.run(
            ops_offsets.clone_offsets(self._runner.session, source, target, topic, self._deadline())
        )

    # Brokers and name servers

    async def broker_status(self, *, cluster: str | None = None, address: str | None = None) -> list[Said]:
        """Return what brokers say of themselves: one, those of a cluster, or all."""
        return await self._runner.run(
            ops_brokers.broker_status(
                self._runner.session, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def broker_config(self, *, cluster: str | None = None, address: str | None = None) -> list[Said]:
        """Return brokers' settings; secret values are hidden."""
        return await self._runner.run(
            ops_brokers.broker_config(
                self._runner.session, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def update_broker_config(
        self, changes: Mapping[str, str], *, cluster: str | None = None, address: str | None = None
    ) -> list[Told]:
        """Change settings of a broker, or of all masters of a cluster."""
        return await self._runner.run(
            ops_brokers.update_broker_config(
                self._runner.session, changes, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def name_server_config(self) -> list[Said]:
        """Return the settings of each name server."""
        return await self._runner.run(ops_brokers.name_server_config(self._runner.session))

    async def update_name_server_config(self, changes: Mapping[str, str]) -> list[Told]:
        """Change settings of every name server."""
        return await self._runner.run(ops_brokers.update_name_server_config(self._runner.session, changes))

    async def clean(
        self, code: RequestCode, *, cluster: str | None = None, address: str | None = None
    ) -> list[Told]:
        """Have brokers clean up: CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC, DELETE_EXPIRED_COMMITLOG."""
        return await self._runner.run(
            ops_brokers.clean(
                self._runner.session, code, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def put_key_value(self, namespace: str, key: str, value: str | None) -> list[Told]:
        """Set a key of a namespace at every name server; None removes it."""
        return await self._runner.run(ops_brokers.put_key_value(self._runner.session, namespace, key, value))

    async def key_values(self, namespace: str) -> dict[str, str]:
        """Return all keys of a namespace."""
        return await self._runner.run(ops_brokers.key_values(self._runner.session, namespace))

    async def queue_entries(self, address: str, query: QueryConsumeQueue) -> tuple[QueueRows, str | None]:
        """Return entries of a queue's index on one broker, and what it remarks when there are none."""
        return await self._runner.run(ops_brokers.queue_entries(self._runner.session, address, query))

    async def consume_directly(
        self, address: str, group: str, client_id: str, offset_message_id: str
    ) -> DirectConsumption:
        """Have one consumer consume one message now."""
        return await self._runner.run(
            ops_brokers.consume_directly(self._runner.session, address, group, client_id, offset_message_id)
        )

    # Accounts

    async def update_account(
        self, account: AccountChange, *, cluster: str | None = None, address: str | None = None
    ) -> list[Told]:
        """Add or change an account of brokers with aclEnable."""
        return await self._runner.run(
            ops_access.update_account(
                self._runner.session, account, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def delete_account(
        self, access_key: str, *, cluster: str | None = None, address: str | None = None
    ) -> list[Told]:
        """Remove an account."""
        return await self._runner.run(
            ops_access.delete_account(
                self._runner.session, access_key, self._deadline(), cluster_name=cluster, address=address
            )
        )

    async def update_white_addresses(
        self,
        addresses: str,
        *,
        path: str | None = None,
        cluster: str | None = None,
        address: str | None = None,
    ) -> list[Told]:
        """Change the addresses that need no signature, joined by commas."""
        return await self._runner.run(
            ops_access.update_white_addresses(
                self._runner.session,
                addresses,
                path,
                self._deadline(),
                cluster_name=cluster,
                address=address,
            )
        )

    async def access_versions(
        self, *, cluster: str | None = None, address: str | None = None
    ) -> list[AccessVersions]:
        """Return how often brokers' account files were changed."""
        return await self._runner.run(
            ops_access.access_versions(
                self._runner.session, self._deadline(), cluster_name=cluster, address=address
            )
        )

    # Messages

    async def messages_by_id(self, topic: str, message_id: str) -> list[ReceivedMessage]:
        """Return all messages with a unique id, oldest first; more than one if it was sent again."""
        return await self._runner.run(
            admin.messages_by_id(self._runner.session, topic, message_id, self._deadline())
        )

    def _deadline(self) -> Deadline:
        raise NotImplementedError
