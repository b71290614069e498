"""The steps of claims: users create and delete them, the scheduler allocates them, a controller ends allocations.

The scheduler also creates claims of its own for the extended resources of pods, and a tenant creates copies of these.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tallygate.state.ledger.ledger import Operation
from tests.schedules import pick
from tests.state.simulation.api_requests import Request
from tests.state.simulation.class_rules import ELSEWHERE
from tests.state.simulation.ground_truth import GroundTruth
from tests.state.simulation.invariants import Invariants
from tests.state.simulation.replica_steps import StepFunction
from tests.state.simulation.stored_objects import Claim

_NAMES = 2
_OTHER_POD = "another pod"


def bind(claim: Claim, old: Claim | None, class_state: str) -> Claim:
    """Return a claim that a replica admitted, which saw its class in a state: bound, if the cap decided on it."""
    if old is None:
        return claim._replace(is_bound=class_state != ELSEWHERE)
    is_decided = claim.devices and claim.devices != old.devices and class_state != ELSEWHERE
    return claim._replace(is_bound=old.is_bound or bool(is_decided))


@dataclass
class ClaimSteps:
    """The steps of claims; `accept` starts one of the `requests`, `create_uid` returns a UID that no object has."""

    truth: GroundTruth
    requests: Sequence[Request]
    invariants: Invariants
    accept: Callable[[Request], str]
    create_uid: Callable[[], str]

    def list_steps(self) -> Mapping[str, StepFunction]:
        """Return each step by the name of its operation."""
        return {
            "claim": self._create,
            "allocate": self._allocate,
            "deallocate": self._deallocate,
            "touch_claim": self._touch,
            "delete_claim": self._delete,
            "own": self._create_own,
            "name": self._name,
            "copy": self._copy,
        }

    def _create(self, a: int, b: int, c: int) -> str:
        namespace = a % self.truth.scenario.namespaces
        choices = self.truth.scenario.alternatives
        alternatives = choices[c % len(choices)]
        return self._request(Claim(self.create_uid(), namespace, f"c{b % _NAMES}", alternatives))

    def _create_own(self, a: int, b: int, _c: int) -> str:
        """Let the scheduler create a claim for the extended resource of a pod.

        A scheduler that has just started may not have seen the claim of another one, and creates a second claim.
        """
        requested = [each.claim for each in self.requests if each.claim is not None]
        served = {claim.made_for for claim in (*self.truth.claims.values(), *requested)}
        has_started = b % 5 == 0
        pods = [pod for pod in self.truth.pods.values() if not pod.ended]
        pod = pick([pod for pod in pods if has_started or not (pod.claim or pod.uid in served)], a)
        if pod is None:
            return ""
        uid = self.create_uid()
        claim = Claim(uid, pod.namespace, f"own-{uid}", (pod.size,), owner=pod.uid, made_for=pod.uid)
        line = self._request(claim)
        if line:
            self.truth.pods_of_claims[claim.uid] = pod.uid
        return line

    def _copy(self, a: int, _b: int, _c: int) -> str:
        """Let a tenant create a claim with the name and the owner of a scheduler's claim that is deleted."""
        truth = self.truth
        pods = [pod for pod in truth.pods.values() if pod.claim and (pod.namespace, pod.claim) not in truth.claim_names]
        pod = pick(pods, a)
        if pod is None:
            return ""
        return self._request(Claim(self.create_uid(), pod.namespace, pod.claim, (pod.size,), owner=pod.uid))

    def _request(self, claim: Claim, old: Claim | None = None) -> str:
        return self.accept(
            Request(
                claim.uid,
                Operation.UPDATE if old else Operation.CREATE,
                claim.namespace,
                claim.name,
                claim.devices or max(claim.alternatives),
                classed=True,
                arrived_at=self.truth.now,
                old_revision=old.revision if old else 0,
                old_claim=old,
                claim=claim,
            )
        )

    def _allocate(self, a: int, b: int, _c: int) -> str:
        """Let the scheduler allocate devices for a claim; it tries any of the alternatives."""
        claim = pick([each for each in self.truth.claims.values() if not each.devices], a)
        if claim is None:
            return ""
        return self._request(self._give_devices(claim, a, b), claim)

    def _give_devices(self, claim: Claim, a: int, b: int) -> Claim:
        """Return a claim with devices, reserved for the pod that it was made for, or for another one."""
        devices, reserved_for = claim.alternatives[b % len(claim.alternatives)], _OTHER_POD
        if claim.made_for and not claim.has_ended:
            reserved_for = claim.made_for
        elif not claim.owner:
            pod = pick([each for each in self.truth.pods.values() if each.namespace == claim.namespace], a)
            reserved_for = pod.uid if pod is not None and b & 256 else _OTHER_POD
        return claim._replace(devices=devices, reserved_for=reserved_for)

    def _touch(self, a: int, b: int, _c: int) -> str:
        """Let the scheduler or a controller reserve an allocated claim for another pod; its devices stay the same."""
        truth = self.truth
        claim = pick([each for each in truth.claims.values() if each.devices and not each.owner], a)
        if claim is None:
            return ""
        pod = pick([each for each in truth.pods.values() if each.namespace == claim.namespace], b)
        return self._request(claim._replace(reserved_for=pod.uid if pod is not None else _OTHER_POD), claim)

    def _deallocate(self, a: int, _b: int, _c: int) -> str:
        claim = pick([each for each in self.truth.claims.values() if each.devices and not self._is_in_use(each)], a)
        if claim is None or self.truth.is_stalled:
            return ""
        self.truth.put_claim(claim._replace(devices=0, reserved_for="", has_ended=True))
        return f"the allocation of {claim.uid} ends (revision {self.truth.revision})"

    def _is_in_use(self, claim: Claim) -> bool:
        pod = self.truth.pods.get(claim.reserved_for)
        return pod is not None and not pod.ended

    def _delete(self, a: int, _b: int, _c: int) -> str:
        """Delete a claim, by force if it is in use."""
        claim = pick(list(self.truth.claims.values()), a)
        if claim is None or self.truth.is_stalled:
            return ""
        self.truth.delete_claim(claim.uid)
        return f"{claim.uid} is deleted (revision {self.truth.revision})"

    def _name(self, a: int, b: int, _c: int) -> str:
        """Let the scheduler write the name of its claim into the pod's status, at times in place of another."""
        truth = self.truth
        pods = {pod.uid: pod for pod in truth.pods.values() if not pod.ended and (b % 4 == 0 or not pod.claim)}
        claims = [each for each in truth.claims.values() if each.made_for and each.reserved_for in pods]
        claim = pick([each for each in claims if pods[each.reserved_for].claim != each.name], a)
        if claim is None or truth.is_stalled:
            return ""
        truth.put(pods[claim.reserved_for]._replace(claim=claim.name))
        return f"{claim.reserved_for} names {claim.uid} in its status (revision {truth.revision})"

    def commit(self, request: Request) -> bool:
        """Store the claim of a request; return whether admission runs again, since the claim has changed."""
        truth, claim = self.truth, request.claim
        assert claim is not None
        stored = truth.claims.get(claim.uid)
        if request.old_claim is None:
            if (claim.namespace, claim.name) in truth.claim_names:
                return False
            truth.put_claim(claim._replace(token=request.token))
        elif stored is not None and stored.revision == request.old_revision:
            truth.put_claim(claim)
        elif stored is not None and not stored.devices and not request.old_claim.devices:
            request.old_claim, request.old_revision = stored, stored.revision
            request.claim = stored._replace(devices=claim.devices, reserved_for=claim.reserved_for)
            return True
        else:
            return False
        self.invariants.check_stored(claim.uid, request)
        return False

    def finish(self) -> None:
        """Let the scheduler name its claims in the statuses of their pods, or delete those without devices."""
        for claim in list(self.truth.claims.values()):
            pod = self.truth.pods.get(claim.made_for)
            if pod is None or pod.ended or pod.claim:
                continue
            if claim.reserved_for == pod.uid:
                self.truth.put(pod._replace(claim=claim.name))
            else:
                self.truth.delete_claim(claim.uid)
