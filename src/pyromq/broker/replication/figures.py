"""The metrics of replication: slaves, their lag, and whether a slave copies."""

from typing import TYPE_CHECKING

from pyromq.broker.replication.followers import Followers
from pyromq.net.metrics import Figure, FigureKind
from pyromq.store.store import MessageStore

if TYPE_CHECKING:
    from pyromq.broker.replication.client import ReplicationClient


def leading_figures(followers: Followers, store: MessageStore) -> list[Figure]:
    """Return what there is to see of a master's slaves."""
    return [
        Figure(
            "pyromq_followers",
            "Slaves that are connected.",
            (),
            lambda: {(): followers.connected_count},
        ),
        Figure(
            "pyromq_follower_lag_bytes",
            "Bytes of the commit log that a slave has not acknowledged.",
            ("follower",),
            lambda: {
                (one.address if one.id is None else str(one.id),): followers.lag_bytes(one)
                for one in followers.members
            },
        ),
        Figure(
            "pyromq_unconfirmed_bytes",
            "Bytes at the end of the commit log that not enough slaves have.",
            (),
            lambda: {(): max(0, store.committed_position - followers.confirmed)},
        ),
    ]


def following_figures(client: "ReplicationClient") -> list[Figure]:
    """Return what there is to see of a slave."""
    return [
        Figure(
            "pyromq_following",
            "1 while this slave copies the master's log.",
            (),
            lambda: {(): int(client.is_connected)},
        ),
        Figure(
            "pyromq_following_lag_bytes",
            "Bytes of the master's commit log that are known to be missing here.",
            (),
            lambda: {(): client.lag_bytes},
        ),
        Figure(
            "pyromq_copied_bytes_total",
            "Bytes of the master's commit log that were copied since the start.",
            (),
            lambda: {(): client.copied_bytes},
            FigureKind.COUNTER,
        ),
        Figure(
            "pyromq_diverged",
            "1 while nothing is copied because this log and the master's do not fit.",
            (),
            lambda: {(): int(client.is_diverged)},
        ),
    ]
