"""A whole cluster in one process, on a clock, a network and disks that the test owns; see DESIGN.md."""
