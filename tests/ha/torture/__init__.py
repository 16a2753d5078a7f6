"""A cluster of real processes, faults, load, and a judge: what `make torture-ha` and tests/ha run."""
