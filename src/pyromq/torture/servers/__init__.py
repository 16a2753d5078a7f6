"""Servers of a run, and all that can be done to them: processes, networks, disks, clocks."""
