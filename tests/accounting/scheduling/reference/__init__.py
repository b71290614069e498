"""A plain transcription of kube-scheduler 1.36's default profile, for comparison with the product.

Read it beside the Go source: one module per plugin, one function per Go function; each names its file
below pkg/scheduler of kubernetes v1.36.3 (`CH` is component-helpers v0.36.3). Objects stay JSON, and every
lookup is a loop over all objects. Only quantities and requests are shared with the product.

A feature that is not transcribed raises `NotModelledError`: the allocation of devices to claims, and volumes of the
in-tree kinds on nodes that migrated them to CSI. Scores are left out: any node that fits may be the chosen one.
"""

from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.scheduler import Answer, schedule

__all__ = ["Answer", "NotModelledError", "schedule"]
