"""Failover: etcd decides which replica is master. Election, in-sync replicas, change of role."""
