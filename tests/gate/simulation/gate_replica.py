"""A replica whose gate decides whole reviews: rules, annotations, controllers, charges and surges, as in a server."""

import json
from functools import cached_property
from typing import Any

from tallygate.admission.cap_index import CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.request import CREATE, UPDATE, Phase
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.gate.decisions import UndecidedError
from tallygate.gate.gate import Gate
from tallygate.review.view import ClusterView
from tallygate.state.ledger.ledger import Operation
from tallygate.state.ports import RetryLaterError
from tests.gate.simulation.attempts import Attempt, Attempts
from tests.gate.simulation.cluster_objects import UNIX_START, Pod
from tests.gate.simulation.counts import CountRecorder
from tests.gate.simulation.device_policies import PolicyVersion
from tests.gate.simulation.ground_truth import GroundTruth
from tests.gate.simulation.replica import CHARGE_SECONDS, Decided, Replica
from tests.gate.simulation.requests import Request
from tests.gate.simulation.store import Store

SKEW = 2.0
"""The seconds by which the wall clock of a replica is ahead of that of the replica before it."""


class GateReplica(Replica):
    """A replica with a gate; `attempts` records what each attempt of a request may charge."""

    def __init__(  # noqa: PLR0913, PLR0917  # those of a replica
        self,
        number: int,
        truth: GroundTruth,
        recorder: CountRecorder,
        store: Store,
        policy: PolicyVersion,
        attempts: Attempts,
    ) -> None:
        self._attempts = attempts
        super().__init__(number, truth, recorder, store, policy)

    @cached_property
    def _gate(self) -> Gate:
        return Gate(
            policies=lambda: self.policy.documents,
            view=ClusterView(
                namespaces=self.namespaces,
                usage_lister=self._usage_lister,
                workload_reader=self._store,
                cap_sources=self._get_cap_sources,
            ),
            ledgers=self._ledgers,
            monotonic=self.clock,
            nonce=self.create_nonce,
            unix_time=self.read_unix_time,
            activation=self._cap_activation,
        )

    def _get_cap_sources(self) -> CapSources:
        return CapSources(annotations=self.namespaces.get_limit_annotations())

    def find_most_capacity(self) -> int:
        """Return the most that the capacity of which limits are percentages may be in its view; 0 without any."""
        return 0

    def read_unix_time(self) -> float:
        """Return the time by its wall clock, in seconds of the Unix epoch."""
        return UNIX_START + self.number * SKEW + self._truth.clock()

    def get_caps(self) -> CapIndex:
        """Return the active caps, with the limits of the moment."""
        return self._gate.get_active_caps()

    def _activate(self) -> None:
        self._gate.get_active_caps()

    def create_nonce(self) -> str:
        """Return a nonce that no other attempt has."""
        nonce = super().create_nonce()
        self._attempts.record_nonce(nonce)
        return nonce

    def decide(self, request: Request) -> Decided:
        """Decide the review of a request for a pod or workload.

        Raises:
            RetryLaterError: if there is no decision.
        """
        self.check_limits()
        caps, seen = self._find_caps(request.namespace), self.list_seen_revisions()
        attempt = Attempt(
            request,
            self.policy,
            self._truth.now,
            self.read_unix_time(),
            seen,
            self.list_seen_revisions,
            self.find_most_capacity(),
        )
        with self._attempts.open(attempt):
            try:
                decision = self._gate.admit(_create_body(request), Phase.VALIDATING, self.clock() + CHARGE_SECONDS)
            except UndecidedError as error:
                raise RetryLaterError(str(error)) from error
        if decision.record.verdict == "retry":
            raise RetryLaterError("; ".join(f"{each.cause}" for each in decision.record.obstacles))
        keys = [get_ledger_key(cap, request.namespace) for cap in caps]
        return Decided(decision.record.verdict == "allow", keys, self._attempts.find_last_nonce(attempt))


def _create_body(request: Request) -> bytes:
    """Return the review of a request as the API server sends it."""
    is_create = request.operation is Operation.CREATE
    fields: dict[str, Any] = {
        "uid": f"review-{request.uid}",
        "kind": {"group": "batch" if request.workload else "", "kind": "Job" if request.workload else "Pod"},
        "operation": CREATE if is_create else UPDATE,
        "namespace": request.namespace,
        "name": request.stored_name,
        "userInfo": {"username": "a controller"},
        "dryRun": request.is_dry_run,
        "object": _create_object(request, request.size),
    }
    if not is_create:
        fields["oldObject"] = _create_object(request, request.old_size)
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}).encode()


def _create_object(request: Request, size: int) -> dict[str, Any]:
    if request.workload is not None:
        return request.workload.to_object()
    return {"apiVersion": "v1", "kind": "Pod"} | Pod(
        request.uid, request.namespace, size, owner=request.owner, group=request.group
    ).to_object()
