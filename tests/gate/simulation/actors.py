"""The actors of the world and their steps: users, the API server and etcd."""

from collections.abc import Mapping

from tallygate.state.ledger.ledger import Operation
from tallygate.state.ports import LedgerKey, RetryLaterError, StoreUnavailableError
from tests.gate.simulation.cluster_objects import CAP_NAMES, Claim, Pod
from tests.gate.simulation.device_policies import ELSEWHERE
from tests.gate.simulation.environment import OLD_NAMESPACES, Environment, StepFunction
from tests.gate.simulation.registrations import LAG
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.requests import Request, RequestState
from tests.gate.simulation.tasks import Task
from tests.schedules import pick

_GIVEN_NAMES = ("web-0", "web-1")
_MAX_TASKS = 9
_NEW_NAMESPACES = ("team-2", "team-3")


class Users:
    """Users create, change and delete pods and namespaces, and publish policies."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._requests = environment.requests
        self._uids = 0
        self.steps: Mapping[str, StepFunction] = {
            "create": self._create,
            "create_again": self._create_again,
            "change": self._change,
            "delete": self._delete,
            "end": self._end,
            "create_namespace": self._create_namespace,
            "delete_namespace": self._delete_namespace,
            "relabel": self._relabel,
            "move": self._move,
            "publish": self._publish,
        }

    def _create(self, a: int, b: int) -> str:
        self._uids += 1
        namespace = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        now, token = self._truth.now, self._environment.token
        return self._send(Request(Operation.CREATE, f"u{self._uids}", namespace, 0, 1 + b % 3, now, token))

    def _create_again(self, a: int, b: int) -> str:
        """Create a pod with a name that others have had, or want."""
        self._uids += 1
        namespace = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        now, token = self._truth.now, self._environment.token
        request = Request(Operation.CREATE, f"u{self._uids}", namespace, 0, 1 + b % 3, now, token)
        request.given_name = _GIVEN_NAMES[(b >> 4) % len(_GIVEN_NAMES)]
        return self._send(request)

    def _change(self, a: int, b: int) -> str:
        pods = [pod for pod in self._truth.pods.values() if not pod.ended]
        if not pods:
            return ""
        pod = pods[a % len(pods)]
        change = Request(
            Operation.UPDATE, pod.uid, pod.namespace, pod.size, 1 + b % 4, self._truth.now, self._environment.token,
            pod.revision, owner=pod.owner, given_name=pod.given_name, group=pod.group,
        )  # fmt: skip
        return self._send(change)

    def _send(self, request: Request) -> str:
        if not self._environment.send(request):
            return ""
        return f"{request.operation} {request.uid} in {request.namespace}: {request.old_size} → {request.size}"

    def _delete(self, a: int, _b: int) -> str:
        if self._truth.is_stalled or not self._truth.pods:
            return ""
        uid = self._pick_uid(a)
        self._truth.delete(uid)
        return f"{uid} is deleted (revision {self._truth.revision})"

    def _end(self, a: int, _b: int) -> str:
        if self._truth.is_stalled or not self._truth.pods:
            return ""
        uid = self._pick_uid(a)
        self._truth.put(self._truth.pods[uid]._replace(ended=True))
        return f"{uid} ends (revision {self._truth.revision})"

    def _pick_uid(self, number: int) -> str:
        return sorted(self._truth.pods)[number % len(self._truth.pods)]

    def _create_namespace(self, a: int, _b: int) -> str:
        names = [each for each in _NEW_NAMESPACES if each not in self._truth.namespaces]
        if not names:
            return ""
        name = names[a % len(names)]
        self._truth.create_namespace(name)
        return f"{name} is created (revision {self._truth.revision})"

    def _delete_namespace(self, a: int, _b: int) -> str:
        """Delete a namespace. Another of its name may be created before every replica has seen the deletion."""
        names = [each for each in _NEW_NAMESPACES if each in self._truth.namespaces]
        if not names or self._truth.is_stalled or self._truth.waiting:
            return ""
        name = names[a % len(names)]
        self._truth.delete_namespace(name)
        return f"{name} is deleted (revision {self._truth.revision})"

    def _relabel(self, a: int, b: int) -> str:
        """Let a namespace leave a cap, or return to it with the pods that were stored meanwhile."""
        if self._truth.is_stalled:
            return ""
        name, cap = list(self._truth.namespaces)[a % len(self._truth.namespaces)], CAP_NAMES[b % len(CAP_NAMES)]
        returns = self._truth.relabel(name, cap)
        if returns:
            self._environment.invariants.excuse_returned(name, cap)
        return f"{name} {'returns to' if returns else 'leaves'} cap {cap} (revision {self._truth.revision})"

    def _move(self, a: int, _b: int) -> str:
        """Move a namespace with its pods from one group to the other."""
        if self._truth.is_stalled:
            return ""
        name = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        entered = self._truth.move(name)
        self._environment.rooms.close(name)
        self._environment.invariants.excuse_returned(name, entered)
        return f"{name} moves to group {entered} (revision {self._truth.revision})"

    def _publish(self, _a: int, _b: int) -> str:
        """Publish the other version of the policies, or the first one again."""
        policies = self._environment.policies
        is_first = self._environment.policy is policies.first
        self._environment.policy = policies.other if is_first else policies.first
        return f"{'the other version' if is_first else 'the first version'} of the policies is published"


class ApiServer:
    """The API server calls the webhook, repeatedly if need be, and stores allowed requests within the bound.

    Of the calls for one request only the last one counts.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._requests = environment.requests
        self.steps: Mapping[str, StepFunction] = {"call": self._call, "store": self._store}

    def _call(self, a: int, b: int) -> str:
        """Call a replica: the first time, or again while the previous call may still run."""
        request = pick([each for each in self._requests if each.state is RequestState.CALLING], a)
        replica = self._environment.find_running(b)
        if request is None or replica is None or len(self._environment.running) >= _MAX_TASKS:
            return ""
        if self._has_timed_out(request):
            return f"{request.uid} has timed out"
        is_asked, labels_revision = self._is_asked(request, b >> 8 & 1)
        if request.task is None and not is_asked:
            request.state, request.namespaces_revision = RequestState.ALLOWED, labels_revision
            loaded = [{cap.key for cap in each.policy.caps.list_caps()} for each in self._environment.replicas]
            self._environment.invariants.check_asked(request, set.intersection(*loaded))
            return f"the API server {b >> 8 & 1} does not ask about {request.uid}"
        if (request.task is not None and b % 5) or not replica.knows_namespace(request.namespace):
            return ""
        task = request.task = self._environment.start_task(replica, lambda: self._attempt(task, request, replica))
        return f"replica {replica.number} is called for {request.uid}"

    def _is_asked(self, request: Request, server: int) -> tuple[bool, int]:
        """Return whether the registration that an API server has covers a cap of the namespace of a request.

        The second server has the labels of namespaces late, too. Return the revision of the labels that it has.
        """
        truth = self._truth
        if not self._environment.policies.are_registered:
            return True, truth.revision
        asked = self._environment.registration.list_asked(server, truth.now)
        caps = {cap.key for cap in self._environment.policies.first.caps.list_caps()} & asked.keys()
        keys = [LedgerKey(cap, request.namespace) for cap in caps]
        found = [truth.is_member_before(key, request.namespace, LAG if server else 0.0) for key in keys]
        return any(is_member for is_member, _ in found), min((seen for _, seen in found), default=truth.revision)

    def _has_timed_out(self, request: Request) -> bool:
        """Return whether the in-flight bound of a request is over, and remove the request then."""
        if self._truth.now - request.arrived_at < BOUND:
            return False
        self._requests.remove(request)
        return True

    def _attempt(self, task: Task, request: Request, replica: Replica) -> None:
        loaded, seen, began_at = replica.loaded, replica.list_seen_revisions(), self._truth.now
        try:
            decided = replica.decide(request)
        except (RetryLaterError, StoreUnavailableError):
            decided = None
        if request.task is not task or request.state is not RequestState.CALLING or request not in self._requests:
            return  # the API server no longer waits for this call
        if decided is None or not decided.is_admitted or request.is_dry_run:
            self._requests.remove(request)
            return
        request.state, request.reserved = RequestState.ALLOWED, frozenset(decided.keys)
        request.namespaces_revision = seen.namespaces
        if request.claim is not None:
            request.claim = _bind(request.claim, request.old_claim, decided.class_state)
        for key in request.reserved:
            if request.workload is not None and self._truth.is_member(key, request.namespace):
                self._environment.rooms.open(key, request.uid, request.size)
            self._open_group(key, request)
            self._environment.invariants.check_ledger(key)
            loaded_at = loaded.get(key.cap, 0)
            self._environment.invariants.check_guarded(key, request.uid, decided.attempt, began_at)
            self._environment.invariants.check_reservation(key, request.uid, decided.attempt, loaded_at, seen)

    def _open_group(self, key: LedgerKey, request: Request) -> None:
        """Record that a ledger has room for all pods of the PodGroup of a pod, if it has reserved for them."""
        group, stored = self._truth.find_group(request.namespace, request.group), self._truth.ledgers.get(key)
        is_member = self._truth.is_member(key, request.namespace)
        if group is not None and stored is not None and is_member and group.uid in stored[0].reservations:
            self._environment.rooms.open(key, group.uid, group.size)

    def _store(self, a: int, _b: int) -> str:
        """Send an allowed request to etcd, before its in-flight bound is over."""
        request = pick([each for each in self._requests if each.state is RequestState.ALLOWED], a)
        if request is None:
            return ""
        if self._has_timed_out(request):
            return f"{request.uid} has timed out"
        request.state = RequestState.SENT
        self._truth.commit(lambda: self._commit(request))
        return f"{request.operation} {request.uid} is sent to etcd"

    def _commit(self, request: Request) -> None:
        pod = self._truth.pods.get(request.uid)
        if request.operation is Operation.CREATE and request.namespace not in self._truth.namespaces:
            self._requests.remove(request)
            return
        if request.claim is not None:
            self._commit_claim(request, request.claim)
            return
        if request.workload is not None:
            self._requests.remove(request)
            self._truth.put_workload(request.workload)
            return
        if request.operation is Operation.CREATE:
            if self._truth.has_pod_named(request.namespace, request.stored_name):
                self._requests.remove(request)
                return
            new = Pod(request.uid, request.namespace, request.size, owner=request.owner, given_name=request.given_name)
            new = new._replace(group=request.group)
        elif pod is not None and pod.revision == request.old_revision:
            new = pod._replace(size=request.size)
        elif pod is not None and not pod.ended:  # the stored pod has changed: admission runs again
            request.old_revision, request.old_size = pod.revision, pod.size
            request.state, request.task = RequestState.CALLING, None
            return
        else:
            self._requests.remove(request)
            return
        self._requests.remove(request)
        self._truth.put(new)
        self._add_to_workload(request)
        self._check_stored(request)

    def _add_to_workload(self, request: Request) -> None:
        """Record that a pod was stored for its workload or PodGroup."""
        owner = request.owner
        workload = self._truth.find_workload(request.namespace, owner.name) if owner is not None else None
        if workload is not None and workload.owner == owner:
            self._truth.pods_of_workloads.setdefault(workload.uid, set()).add(request.uid)
        group = self._truth.find_group(request.namespace, request.group)
        if group is not None:
            self._truth.pods_of_workloads.setdefault(group.uid, set()).add(request.uid)

    def _commit_claim(self, request: Request, claim: Claim) -> None:
        """Store a claim. An allocation is an update or a patch; the latter is reviewed again if the claim changed."""
        stored = self._truth.claims.get(request.uid)
        if request.old_claim is None:
            is_stored = all(
                (each.namespace, each.name) != (claim.namespace, claim.name) for each in self._truth.claims.values()
            )
        else:
            is_stored = stored is not None and stored.revision == request.old_revision
        is_patch = stored is not None and not stored.devices and request.token & 1
        if not is_stored and is_patch and request.old_claim is not None and not request.old_claim.devices:
            assert stored is not None
            request.old_claim, request.old_revision = stored, stored.revision
            request.claim = stored._replace(devices=claim.devices, reserved_for=claim.reserved_for)
            request.state, request.task = RequestState.CALLING, None
            return
        self._requests.remove(request)
        if is_stored:
            self._truth.put_claim(claim._replace(token=claim.token or request.token))
            self._check_stored(request)

    def _check_stored(self, request: Request) -> None:
        invariants = self._environment.invariants
        invariants.check_binding_caps(request)
        invariants.check_stored(request.uid, request.reserved, request.namespaces_revision)


def _bind(claim: Claim, old: Claim | None, class_state: str) -> Claim:
    """Return a claim that was admitted by a replica which saw the class in a state: bound, if that was a decision."""
    if old is None:
        return claim._replace(is_bound=class_state != ELSEWHERE)
    is_decided = claim.devices and claim.devices != old.devices and class_state != ELSEWHERE
    return claim._replace(is_bound=old.is_bound or bool(is_decided))


class Etcd:
    """Etcd stalls and continues, receives late writes, and loses ledgers that users delete."""

    def __init__(self, environment: Environment) -> None:
        self._truth = environment.truth
        self.steps: Mapping[str, StepFunction] = {
            "stall": self._stall,
            "commit": self._commit,
            "arrive": self._arrive,
            "delete_ledger": self._delete_ledger,
            "delete_empty_ledger": self._delete_empty_ledger,
        }

    def _stall(self, _a: int, _b: int) -> str:
        if self._truth.is_stalled:
            return ""
        self._truth.is_stalled = True
        return "etcd stalls"

    def _commit(self, a: int, _b: int) -> str:
        """End a stall, or commit the first waiting transaction."""
        if self._truth.is_stalled:
            self._truth.is_stalled = a % 4 != 0
            return "" if self._truth.is_stalled else "etcd continues"
        if not self._truth.waiting:
            return ""
        self._truth.waiting.pop(0)()
        return f"etcd commits the first waiting transaction (revision {self._truth.revision})"

    def _arrive(self, a: int, _b: int) -> str:
        """Let a late write arrive."""
        if not self._truth.late:
            return ""
        self._truth.commit(self._truth.late.pop(a % len(self._truth.late)))
        return "a late write arrives"

    def _delete_ledger(self, a: int, _b: int) -> str:
        """Delete a ledger, unless its namespace may be new (docs/design/caps.md)."""
        return self._delete(a, [key for key in self._truth.ledgers if key.namespace in {"", *OLD_NAMESPACES}])

    def _delete_empty_ledger(self, a: int, _b: int) -> str:
        """Delete an active ledger without used amounts and reservations, which is correct at any time."""
        ledgers = self._truth.ledgers.items()
        return self._delete(
            a, [key for key, (each, _) in ledgers if not (each.reservations or each.used or each.initializer)]
        )

    def _delete(self, number: int, keys: list[LedgerKey]) -> str:
        if not keys or self._truth.waiting or self._truth.is_stalled:
            return ""
        key = keys[number % len(keys)]
        self._truth.delete_ledger(key)
        return f"the ledger {key} is deleted"
