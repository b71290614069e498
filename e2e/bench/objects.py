"""What is put into the cluster: the pod that is created again and again, and what it is counted by."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from webhook.accounting.amounts import Amounts
from webhook.state.kubernetes import cap_ledger
from webhook.state.ledger.ledger import Ledger, Operation, Reservation
from webhook.state.ports import LedgerKey

PLENTY = 1_000_000_000
"""Of GPUs: more than is ever created."""

_GPU = "nvidia.com/gpu"
_ROWS = 8  # promises that a gate leaves in a ledger before it takes a recount along


LEFT = "bench-left"
"""The label of pods that are refused after a gate has reserved for them, and how their names begin."""


def pod(name: str) -> bytes:
    """A pod that every rule looks at; its scheduler does not exist, so it stays as it was created."""
    resources = {"cpu": "100m", "memory": "64Mi", _GPU: "1"}
    container = {
        "name": "main",
        "image": "example.com/none:1",
        "resources": {"requests": resources, "limits": resources},
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {LEFT: "true"} if name.startswith(LEFT) else {}},
            "spec": {"schedulerName": "nobody", "containers": [container]},
        }
    ).encode()


def namespace(name: str) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def quota(name: str, where: str, hard: int = PLENTY) -> dict[str, Any]:
    """A quota of GPUs for a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": where},
        "spec": {"hard": {f"requests.{_GPU}": str(hard)}},
    }


def cap(name: str, where: str, hard: int) -> dict[str, Any]:
    """A cap of GPUs for a namespace, as a policy."""
    return {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "NamespaceCap",
        "metadata": {"name": name},
        "spec": {"namespaces": {"include": [where]}, "hard": {_GPU: hard}},
    }


def ledger(where: str, stored: cap_ledger.StoredVersion | None = None) -> bytes:
    """A CapLedger as a gate writes it, of a cap that nobody has; over what is `stored`, or for the first time."""
    rows = {str(uuid4()): _row(f"bench-{number}") for number in range(_ROWS)}
    counted = Ledger(Amounts({_GPU: PLENTY}), Amounts({_GPU: _ROWS}), resources=frozenset({_GPU}), pods_revision=1)
    whole = counted.with_reservations(rows.items())
    return cap_ledger.encode_ledger(LedgerKey("floor", where), whole, where, stored, datetime.now(UTC)).body


def _row(name: str) -> Reservation:
    nothing, one = Amounts(), Amounts({_GPU: 1})
    return Reservation(
        "bench", name, nothing, one, attempt=uuid4().hex, single_attempt=True, operation=Operation.CREATE
    )
