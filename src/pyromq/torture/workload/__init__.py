"""The workload of a torture: every kind of message that the broker makes promises about, mixed.

    plan = WorkloadPlan.draw(stage.chance, stage.promises)
    workload = Workload(stage, history, plan)
    await workload.prepare()
    await workload.run(60)          # faults come meanwhile
    await workload.settle(90)       # after the last fault is healed
    verdicts = judge(history, stage.promises)

A stage gives its brokers `BROKER_SETTINGS`, and `accounts_file()` where access control is on.
"""

from pyromq.torture.workload.arrangement import ACCOUNTS, BROKER_SETTINGS, accounts_file
from pyromq.torture.workload.mixture import MixedWorkload
from pyromq.torture.workload.workload_plan import WorkloadKind, WorkloadPlan

__all__ = ["ACCOUNTS", "BROKER_SETTINGS", "MixedWorkload", "WorkloadKind", "WorkloadPlan", "accounts_file"]
