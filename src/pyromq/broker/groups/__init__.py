"""Consumer groups and their members: heartbeats, offsets, queue locks, conflicting subscriptions."""
