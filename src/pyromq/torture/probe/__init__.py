"""The probe: producers and readers that speak to every broker of a group directly, whoever is master.

    Probe ─► events of the history ─► verdicts.judge_probes: what the group's log must be

A producer that is refused asks the next broker, and goes back to a deposed master as readily as to any other,
which no well-behaved client would do; a reader reads each broker all the time.
"""
