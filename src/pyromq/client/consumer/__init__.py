"""The engine of every consumer: membership, sharing of queues, pulls, progress; and the outlet of polls."""
