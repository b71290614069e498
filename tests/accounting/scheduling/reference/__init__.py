"""kube-scheduler 1.36's default profile, transcribed slowly and plainly: what the product is compared with.

The rule of this room: read it beside the Go source. A module per plugin, a function per function of theirs; each names
its file below pkg/scheduler of kubernetes v1.36.3 (`CH` is component-helpers v0.36.3). Objects stay JSON, and whatever
is looked for is found by looping over all there is. Nothing is shared with the product but quantities and requests.

What is not transcribed raises `NotModelledError`: the allocation of devices to claims, and volumes of the in-tree kinds
on nodes that migrated them to CSI. Scores are left out: any node that fits may be the chosen one.
"""

from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.scheduler import Answer, schedule

__all__ = ["Answer", "NotModelledError", "schedule"]
