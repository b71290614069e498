"""Cases of ledgers: their CRD, their leader, and their states."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.cli.doctor.fact_changes import (
    FAIL,
    UNAVAILABLE,
    UNKNOWN,
    WARN,
    Cases,
    change_first_replica,
    exclude_permissions,
)
from tests.cli.doctor.healthy_gate import Object, create_definition, create_lease, deployment, metrics, replica


def change_version(change: Callable[[Object], None]) -> dict[str, Any]:
    """Return the CRD with a change of its only version."""
    return {"ledger_definition": create_definition(lambda stored: change(stored["spec"]["versions"][0]))}


def _remove_newer_field(version: Object) -> None:
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["namespacesResourceVersion"]


CASES: Cases = {
    "the CRD is missing": ({"ledger_definition": None}, {"crd": FAIL}),
    "the CRD cannot be read": ({"ledger_definition": UNAVAILABLE}, {"crd": UNKNOWN}),
    "the CRD is old": (change_version(_remove_newer_field), {"crd": FAIL}),
    "the version of the gate is not served": (
        change_version(lambda version: version.update(served=False)),
        {"crd": FAIL},
    ),
    "the version of the gate is not stored": (
        change_version(lambda version: version.update(storage=False)),
        {"crd": FAIL},
    ),
    "the version of the gate is missing": (change_version(lambda version: version.update(name="v1")), {"crd": FAIL}),
    "the CRD is not established": (
        {"ledger_definition": create_definition(lambda stored: stored["status"].update(conditions=[]))},
        {"crd": FAIL},
    ),
    "the CRD was created just now": (
        {
            "ledger_definition": create_definition(
                lambda stored: stored["status"].update(conditions=None, storedVersions=None)
            )
        },
        {"crd": FAIL},
    ),
    "objects of an older version may be stored": (
        {
            "ledger_definition": create_definition(
                lambda stored: stored["status"].update(storedVersions=["v1alpha0", "v1alpha1"])
            )
        },
        {"crd": WARN},
    ),
    "one replica has its ledgers in memory": (
        {
            "deployment": deployment(1, 1, ("serve",)),
            "replicas": (replica(),),
            "lease": None,
            "ledger_definition": None,
            "permissions": exclude_permissions("list pods", "create leases.coordination.k8s.io"),
        },
        {"failure-policy": WARN},
    ),
    "two replicas have their ledgers in memory": (
        {"deployment": deployment(2, 2, ("serve",)), "lease": None, "ledger_definition": None},
        {"leader": FAIL},
    ),
    "no replica renews the Lease": ({"lease": create_lease(timedelta(minutes=-5))}, {"leader": FAIL}),
    "the Lease has no holder": ({"lease": create_lease(holder="")}, {"leader": WARN}),
    "the Lease is missing": ({"lease": None}, {"leader": WARN}),
    "the Lease cannot be read": ({"lease": UNAVAILABLE}, {"leader": UNKNOWN}),
    "pods bypassed the gate": (
        change_first_replica(samples=metrics(ledger_drift_total=[({"cap": "gpus"}, 2.0)])),
        {"ledgers": WARN},
    ),
    "a cap is exceeded": (
        change_first_replica(samples=metrics(cap_ledgers=[({"cap": "gpus", "state": "exceeded"}, 1.0)])),
        {"ledgers": WARN},
    ),
    "a cap is initializing": (
        change_first_replica(samples=metrics(cap_ledgers=[({"cap": "gpus", "state": "initializing"}, 1.0)])),
        {"ledgers": WARN},
    ),
    "ledgers cannot be reconciled": (
        change_first_replica(samples=metrics(ledger_reconcile_total=[({"result": "failed"}, 3.0)])),
        {"ledgers": WARN},
    ),
}
