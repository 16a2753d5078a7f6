"""The JSON bodies, by area: topics, groups, route, heartbeat, registration, locks, lists, offsets."""
