"""Who is master is decided by etcd: election, in-sync replicas, change of role."""
