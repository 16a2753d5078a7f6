"""Metrics and statistics of a broker, for Prometheus and for RocketMQ's tools."""
