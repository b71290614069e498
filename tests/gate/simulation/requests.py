"""The requests in the API server."""

from dataclasses import dataclass
from enum import StrEnum

from tallygate.state.ledger.ledger import Operation
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.cluster_objects import Claim, Owner, Workload
from tests.gate.simulation.tasks import Task


class RequestState(StrEnum):
    """The progress of a request in the API server."""

    CALLING = "calling"
    ALLOWED = "allowed"
    SENT = "sent"


@dataclass(eq=False)
class Request:
    """A creation or an update in the API server; `old_revision` is that of the pod or claim which it replaces.

    `claim` is the new claim and `old_claim` the stored one, if it is a request for a claim. `workload` is the new
    workload if it creates one. `owner` is the controller that the owner reference of a pod names. A dry run is never
    sent to etcd. `given_name` is the name of a pod that other pods may have had, or want; `group` that of its
    PodGroup.

    `reserved` are the ledgers that admitted it, by the namespaces as of revision `namespaces_revision`.
    """

    operation: Operation
    uid: str
    namespace: str
    old_size: int
    size: int
    arrived_at: float
    token: int
    old_revision: int = 0
    state: RequestState = RequestState.CALLING
    task: Task | None = None
    reserved: frozenset[LedgerKey] = frozenset()
    namespaces_revision: int = 0
    claim: Claim | None = None
    old_claim: Claim | None = None
    workload: Workload | None = None
    owner: Owner | None = None
    is_dry_run: bool = False
    given_name: str = ""
    group: str = ""

    @property
    def stored_name(self) -> str:
        """The name of the object."""
        named = self.claim or self.workload
        return named.name if named is not None else self.given_name or f"pod-{self.uid}"
