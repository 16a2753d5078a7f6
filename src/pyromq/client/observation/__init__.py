"""One snapshot of a cluster for all readers: the dashboard, `pyromq top` and the doctor."""
