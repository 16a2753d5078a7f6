"""A group of replicas whose master etcd decides, ours: 9202 switches the master, 9203 lists the replicas."""

from pyromq.wire.header import Header, ServerName


class SwitchMaster(Header, kw_only=True):
    """9202: hand over to a replica, by its address or broker id; none: to the one that has most."""

    new_master: ServerName | None = None


class SwitchMasterAnswer(Header, kw_only=True):
    """The address of the replica that is to be master."""

    new_master: str
