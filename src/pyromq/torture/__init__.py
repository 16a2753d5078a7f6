"""Torture: a workload of every kind of message, faults, and a checker that knows every promise."""
