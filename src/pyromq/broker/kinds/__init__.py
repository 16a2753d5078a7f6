"""Kinds of messages that wait before they are delivered: delayed, timed, transactional, retried, staged."""
