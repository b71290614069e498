"""The objects of the bench in the cluster: the pods, and the quotas, caps and ledgers that count them."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from tallygate.accounting.amounts import Amounts
from tallygate.server.interfaces import create_nonce_source
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import LedgerKey

PLENTY = 1_000_000_000
"""A number of GPUs that is never reached."""

_GPU = "nvidia.com/gpu"
_create_nonce = create_nonce_source()
_RESERVATIONS = 8  # reservations that a gate leaves in a ledger before it recounts


LEFT = "bench-left"
"""The name prefix of pods whose creations failed after a gate had reserved for them."""


def pod(name: str, gpus: int = 1) -> bytes:
    """Return a pod that every rule evaluates; its scheduler does not exist, so it stays unchanged.

    Without GPUs no policy concerns it.
    """
    resources = {"cpu": "100m", "memory": "64Mi", **({_GPU: str(gpus)} if gpus else {})}
    container = {
        "name": "main",
        "image": "example.com/none:1",
        "resources": {"requests": resources, "limits": resources},
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"schedulerName": "none", "containers": [container]},
        }
    ).encode()


def namespace(name: str) -> dict[str, Any]:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def quota(name: str, where: str, hard: int = PLENTY) -> dict[str, Any]:
    """Return a quota of GPUs for a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": where},
        "spec": {"hard": {f"requests.{_GPU}": str(hard)}},
    }


def cap(name: str, where: str, hard: int) -> dict[str, Any]:
    """Return a cap of GPUs for a namespace, as a policy."""
    return {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "NamespaceCap",
        "metadata": {"name": name},
        "spec": {"namespaces": {"include": [where]}, "hard": {_GPU: hard}},
    }


def ledger(where: str, stored: cap_ledger.StoredVersion | None = None) -> bytes:
    """Return a CapLedger as a gate writes it, of a cap without policy; an update of `stored`, or a new one."""
    reservations = {
        str(uuid4()): create_failed_reservation(f"bench-{number}", "bench") for number in range(_RESERVATIONS)
    }
    counted = Ledger(
        Amounts({_GPU: PLENTY}), Amounts({_GPU: _RESERVATIONS}), resources=frozenset({_GPU}), pods_revision=1
    )
    whole = counted.with_reservations(reservations.items())
    return cap_ledger.encode_ledger(LedgerKey("floor", where), whole, where, stored, datetime.now(UTC)).body


def create_failed_reservation(name: str, where: str) -> Reservation:
    """Return the reservation of a pod that was never stored."""
    nothing, one = Amounts(), Amounts({_GPU: 1})
    return Reservation(
        where, name, nothing, one, attempt=_create_nonce(), single_attempt=True, operation=Operation.CREATE
    )
