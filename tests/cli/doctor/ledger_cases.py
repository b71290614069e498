"""What may be wrong with ledgers: their definition, their keeper, and what they say."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.cli.doctor.changes import FAIL, UNKNOWN, UNSEEN, WARN, Cases, only, without
from tests.cli.doctor.world import Object, defined, deployment, lease, metrics, replica


def schema(change: Callable[[Object], None]) -> dict[str, Any]:
    """The definition with a change of its only version."""
    return {"ledger_definition": defined(lambda stored: change(stored["spec"]["versions"][0]))}


def _old(version: Object) -> None:
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["namespacesResourceVersion"]


CASES: Cases = {
    "there is no definition": ({"ledger_definition": None}, {"crd": FAIL}),
    "the definition cannot be read": ({"ledger_definition": UNSEEN}, {"crd": UNKNOWN}),
    "the definition is old": (schema(_old), {"crd": FAIL}),
    "our version is not served": (schema(lambda version: version.update(served=False)), {"crd": FAIL}),
    "our version is not stored": (schema(lambda version: version.update(storage=False)), {"crd": FAIL}),
    "our version is not there": (schema(lambda version: version.update(name="v1")), {"crd": FAIL}),
    "the definition is not established": (
        {"ledger_definition": defined(lambda stored: stored["status"].update(conditions=[]))},
        {"crd": FAIL},
    ),
    "the definition was made just now": (
        {"ledger_definition": defined(lambda stored: stored["status"].update(conditions=None, storedVersions=None))},
        {"crd": FAIL},
    ),
    "older objects may be stored": (
        {"ledger_definition": defined(lambda stored: stored["status"].update(storedVersions=["v1alpha0", "v1alpha1"]))},
        {"crd": WARN},
    ),
    "one replica keeps ledgers in memory": (
        {
            "deployment": deployment(1, 1, ("serve",)),
            "replicas": (replica(),),
            "lease": None,
            "ledger_definition": None,
            "permissions": without("list pods", "create leases.coordination.k8s.io"),
        },
        {"failure-policy": WARN},
    ),
    "two replicas keep ledgers in memory": (
        {"deployment": deployment(2, 2, ("serve",)), "lease": None, "ledger_definition": None},
        {"leader": FAIL},
    ),
    "nobody renews the Lease": ({"lease": lease(timedelta(minutes=-5))}, {"leader": FAIL}),
    "nobody holds the Lease": ({"lease": lease(holder="")}, {"leader": WARN}),
    "there is no Lease": ({"lease": None}, {"leader": WARN}),
    "the Lease cannot be read": ({"lease": UNSEEN}, {"leader": UNKNOWN}),
    "pods came past the gate": (only(told=metrics(ledger_drift_total=[({"cap": "gpus"}, 2.0)])), {"ledgers": WARN}),
    "a cap is over": (
        only(told=metrics(cap_ledgers=[({"cap": "gpus", "state": "exceeded"}, 1.0)])),
        {"ledgers": WARN},
    ),
    "a cap converges": (
        only(told=metrics(cap_ledgers=[({"cap": "gpus", "state": "initializing"}, 1.0)])),
        {"ledgers": WARN},
    ),
    "ledgers cannot be visited": (
        only(told=metrics(ledger_reconcile_total=[({"result": "failed"}, 3.0)])),
        {"ledgers": WARN},
    ),
}
