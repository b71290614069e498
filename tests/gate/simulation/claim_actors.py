"""The actors of claims and devices: tenants, the scheduler, the controllers and the drivers, and their steps."""

from collections.abc import Mapping

from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.state.ledger.ledger import Operation
from tests.gate.simulation.cluster_objects import POOLS, Claim, Pod, Slice, create_device_id
from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.requests import Request
from tests.schedules import pick

_ALTERNATIVES = ((1,), (2,), (1, 2), (2, 1), (1, 3))
_OTHER_POD = "another pod"


class Claims:
    """Tenants create and delete claims; the scheduler allocates them, and creates claims of its own for pods."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._uids = 0
        self.steps: Mapping[str, StepFunction] = {
            "claim": self._create,
            "own": self._create_own,
            "copy": self._copy,
            "allocate": self._allocate,
            "reserve_claim": self._reserve,
            "deallocate": self._deallocate,
            "delete_claim": self._delete,
            "name": self._name,
        }

    def _create(self, a: int, b: int) -> str:
        """Create a claim: a tenant does, or a controller for a pod with a template."""
        namespace = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        alternatives, pod = _ALTERNATIVES[b % len(_ALTERNATIVES)], self._pick_pod(a, namespace)
        owner = pod.uid if pod is not None and b & 64 else ""
        uid = self._create_uid()
        return self._request(Claim(uid, namespace, f"claim-{uid}", alternatives, owner))

    def _create_own(self, a: int, b: int) -> str:
        """Let the scheduler create a claim for the extended resource of a pod.

        A scheduler that has just started may not have seen the claim of another one, and creates a second claim.
        """
        requested = [each.claim for each in self._environment.requests if each.claim is not None]
        served = {claim.made_for for claim in (*self._truth.claims.values(), *requested)}
        pods = [pod for pod in self._truth.pods.values() if not pod.ended]
        pods = [pod for pod in pods if b % 9 == 0 or not (pod.claim or pod.uid in served)]
        return self.create_own(pods[a % len(pods)]) if pods else ""

    def create_own(self, pod: Pod) -> str:
        """Let the scheduler create a claim for a pod."""
        uid = self._create_uid()
        name = f"pod-{pod.uid}-extended-{uid}"
        claim = Claim(uid, pod.namespace, name, (pod.size,), owner=pod.uid, is_annotated=True, made_for=pod.uid)
        claim = claim._replace(owner_name=pod.given_name)
        line = self._request(claim)
        if line:
            self._truth.pods_of_claims[uid] = pod.uid
        return line

    def _copy(self, a: int, _b: int) -> str:
        """Let a tenant create a claim with the name, owner and annotation of a scheduler's claim that is deleted."""
        names = {(each.namespace, each.name) for each in self._truth.claims.values()}
        pods = [pod for pod in self._truth.pods.values() if pod.claim and (pod.namespace, pod.claim) not in names]
        if not pods:
            return ""
        pod = pods[a % len(pods)]
        uid = self._create_uid()
        return self._request(Claim(uid, pod.namespace, pod.claim, (pod.size,), owner=pod.uid, is_annotated=True))

    def _request(self, claim: Claim, old: Claim | None = None) -> str:
        environment = self._environment
        operation = Operation.CREATE if old is None else Operation.UPDATE
        request = Request(
            operation, claim.uid, claim.namespace, 0, claim.counted, self._truth.now, environment.token,
            old.revision if old else 0, claim=claim, old_claim=old,
        )  # fmt: skip
        if not environment.send(request):
            return ""
        devices = [f"{each.pool}/{each.device}" for each in claim.devices]
        of = f"devices {devices} for it" if devices else f"{claim.alternatives} owned by {claim.owner or 'no pod'}"
        return f"{operation} claim {claim.uid} ({claim.name}) in {claim.namespace}: {of}"

    def _allocate(self, a: int, b: int) -> str:
        """Let the scheduler allocate free devices for a claim, often one of its own; it tries any alternative."""
        claims = [each for each in self._truth.claims.values() if not each.devices]
        claims = [each for each in claims if b % 16 == 0 or not self._is_requested(each)]
        own = [each for each in claims if each.made_for and b & 3]
        claim = pick(own or claims, a)
        if claim is None:
            return ""
        number, free = claim.alternatives[b % len(claim.alternatives)], self._list_free()
        if len(free) < number:
            return ""
        start = b >> 3
        devices = tuple(sorted(free[(start + index) % len(free)] for index in range(number)))
        return self._request(claim._replace(devices=devices, reserved_for=self._choose_pod(claim, a, b)), claim)

    def _is_requested(self, claim: Claim) -> bool:
        return any(each.uid == claim.uid for each in self._environment.requests)

    def _choose_pod(self, claim: Claim, a: int, b: int) -> str:
        """Return the pod for which an allocation is reserved: no copy by a tenant is ever reserved for its owner."""
        if claim.made_for and not claim.has_ended:
            return claim.made_for
        pod = self._pick_pod(a, claim.namespace)
        return pod.uid if pod is not None and not claim.is_annotated and b & 256 else _OTHER_POD

    def _list_free(self) -> list[DeviceId]:
        """Return the published devices that no claim has or is about to get."""
        requested = [each.claim for each in self._environment.requests if each.claim is not None]
        used = {device for claim in (*self._truth.claims.values(), *requested) for device in claim.devices}
        published = [create_device_id(each.pool, device.name) for each in self._truth.slices.values()
                     for device in each.devices]  # fmt: skip
        return sorted(each for each in published if each not in used)

    def _reserve(self, a: int, b: int) -> str:
        """Let the scheduler reserve an allocated claim for another pod; its devices stay the same."""
        claim = pick([each for each in self._truth.claims.values() if each.devices and not each.is_annotated], a)
        if claim is None:
            return ""
        pod = self._pick_pod(b, claim.namespace)
        return self._request(claim._replace(reserved_for=pod.uid if pod is not None else _OTHER_POD), claim)

    def _deallocate(self, a: int, _b: int) -> str:
        claims = [each for each in self._truth.claims.values() if each.devices and not self._is_in_use(each)]
        claim = pick(claims, a)
        if claim is None or self._truth.is_stalled or self._truth.waiting:
            return ""
        self._truth.put_claim(claim._replace(devices=(), reserved_for="", has_ended=True))
        return f"the allocation of {claim.uid} ends (revision {self._truth.revision})"

    def _is_in_use(self, claim: Claim) -> bool:
        pod = self._truth.pods.get(claim.reserved_for)
        return pod is not None and not pod.ended

    def _delete(self, a: int, _b: int) -> str:
        """Delete a claim, by force if it is in use."""
        claim = pick(list(self._truth.claims.values()), a)
        if claim is None or self._truth.is_stalled or self._truth.waiting:
            return ""
        self._truth.delete_claim(claim.uid)
        return f"claim {claim.uid} is deleted (revision {self._truth.revision})"

    def _name(self, a: int, b: int) -> str:
        """Let the scheduler write the name of its claim into the pod's status, at times in place of another."""
        pods = {pod.uid: pod for pod in self._truth.pods.values() if not pod.ended and (b % 4 == 0 or not pod.claim)}
        claims = [each for each in self._truth.claims.values() if each.made_for and each.reserved_for in pods]
        claim = pick([each for each in claims if pods[each.reserved_for].claim != each.name], a)
        if claim is None or self._truth.is_stalled or self._truth.waiting:
            return ""
        self._truth.put(pods[claim.reserved_for]._replace(claim=claim.name))
        return f"{claim.reserved_for} names claim {claim.uid} in its status (revision {self._truth.revision})"

    def finish(self) -> None:
        """Let the scheduler name its claims in the statuses of their pods, or delete those without devices."""
        for claim in list(self._truth.claims.values()):
            pod = self._truth.pods.get(claim.made_for)
            if pod is None or pod.ended or pod.claim:
                continue
            if claim.reserved_for == pod.uid:
                self._truth.put(pod._replace(claim=claim.name))
            else:
                self._truth.delete_claim(claim.uid)

    def _pick_pod(self, number: int, namespace: str) -> Pod | None:
        pods = [each for each in self._truth.pods.values() if each.namespace == namespace and not each.ended]
        return pods[number % len(pods)] if pods else None

    def _create_uid(self) -> str:
        self._uids += 1
        return f"c{self._uids}"


class Drivers:
    """The drivers publish the devices of their pools, change them, and take them back."""

    def __init__(self, environment: Environment) -> None:
        self._truth = environment.truth
        self.steps: Mapping[str, StepFunction] = {"publish_devices": self._publish}

    def _publish(self, a: int, b: int) -> str:
        if self._truth.is_stalled or self._truth.waiting:
            return ""
        pool = list(POOLS)[a % len(POOLS)]
        published, everything = self._truth.slices.get(pool), POOLS[pool]
        if published is None:
            self._truth.put_slice(Slice(pool, 1, tuple(everything)))
            return f"{pool} publishes all devices (revision {self._truth.revision})"
        if b % 8 == 0:
            self._truth.delete_slice(pool)
            return f"{pool} publishes nothing any more (revision {self._truth.revision})"
        devices = list(published.devices)
        if b % 8 < 5 and devices:
            devices.pop((b >> 3) % len(devices))
        elif b % 8 == 5 and devices:
            index = (b >> 3) % len(devices)
            changed = devices[index]
            devices[index] = changed._replace(is_h100=not changed.is_h100, memory=4 - changed.memory)
        else:
            devices = list(everything)
        self._truth.put_slice(Slice(pool, published.generation + b % 2, tuple(devices)))
        names = ", ".join(each.name for each in devices)
        return f"{pool} publishes {names or 'no devices'} (revision {self._truth.revision})"
