"""The world: every step that a schedule can take.

A step chooses by its numbers alone. If it can do nothing it returns an empty line.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from tallygate.accounting.claim_charge import NO_MAPPINGS
from tallygate.state.ledger.ledger import Ledger, Operation, Surge
from tests.schedules import Step, ViolationError, pick
from tests.state.simulation.annotation_rules import Override
from tests.state.simulation.api_requests import Request, RequestState
from tests.state.simulation.claim_steps import ClaimSteps, bind
from tests.state.simulation.class_rules import MAPPINGS, list_sources
from tests.state.simulation.ground_truth import (
    GroundTruth,
    Key,
    NamespaceVersion,
    StoredLedger,
    amounts,
    hash_members,
    is_under,
    list_keys,
)
from tests.state.simulation.handlers import Handler, Phase
from tests.state.simulation.invariants import Invariants
from tests.state.simulation.ledger_writes import LedgerWrites
from tests.state.simulation.policies import create_policy
from tests.state.simulation.replica import Replica
from tests.state.simulation.replica_steps import ReplicaSteps, StepFunction
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.scenario import B, Scenario, X, Y
from tests.state.simulation.stored_objects import Pod
from tests.state.simulation.surge_steps import SurgeSteps

_MAX_REQUESTS = 5
_MAX_HANDLERS = 6
_NAMES = 2


class World:
    """The ground truth, the requests and the replicas; `story` has a line for each step that did something."""

    def __init__(self, scenario: Scenario, rules: Rules = PRODUCT) -> None:
        self.scenario = scenario
        self.rules = rules
        self.truth = GroundTruth(scenario)
        all_caps = frozenset(range(len(scenario.caps)))
        labels = scenario.labels or (all_caps,) * scenario.namespaces
        self.truth.namespace_log.append(NamespaceVersion(1, labels, (None,) * scenario.namespaces))
        self.policies = [create_policy(scenario.caps)]
        self.truth.recorded |= all_caps
        if scenario.are_caps_new:
            self.policies.insert(0, replace(self.policies[0], caps=frozenset()))
            self.truth.recorded.clear()
        self.requests: list[Request] = []
        self.requests_by_uid: dict[str, list[Request]] = defaultdict(list)
        self.handlers: list[Handler] = []
        self.invariants = Invariants(self.truth, self.requests_by_uid)
        self.etcd = LedgerWrites(self.truth, rules, self.invariants.check_write)
        self.story: list[str] = []
        self._uids = 0
        self._nonces = 0
        self.surge_steps = SurgeSteps(self.truth, self.requests, self.policies, self._accept, self._create_uid)
        self._populate()
        self.replicas = [Replica(number, self.truth, rules) for number in range(scenario.replicas)]
        for replica in self.replicas:
            replica.load(0, self.policies[0].caps)
        replica_steps = ReplicaSteps(self.truth, rules, self.replicas, self.policies, self.handlers, self.etcd.send)
        self.claim_steps = ClaimSteps(self.truth, self.requests, self.invariants, self._accept, self._create_uid)
        self._steps: Mapping[str, StepFunction] = {
            **replica_steps.list_steps(),
            **self.etcd.list_steps(),
            **self.claim_steps.list_steps(),
            **self.surge_steps.list_steps(),
            "create": self._create,
            "change": self._change,
            "delete": self._delete,
            "end": self._end,
            "touch": self._touch,
            "call": self._call,
            "proceed": self._proceed,
            "give_up": self._give_up,
            "store": self._store,
            "tick": self._tick,
            "relabel": self._relabel,
            "annotate": self._annotate,
            "publish": self._publish,
            "toggle_cap": self._toggle_cap,
            "override": self._override,
        }

    def step(self, step: Step) -> str:
        """Take a step; return its line of the story, which is empty if nothing could be done."""
        op, a, b, c = step
        self.etcd.token = c
        line = self._steps[op](a, b, c)
        if line:
            self.story.append(line)
        return line

    def _populate(self) -> None:
        for namespace, size in self.scenario.pods:
            uid = self._create_uid()
            token = self._uids * 9973 & 0xFFFF
            self.truth.put(Pod(uid, namespace, uid, size, classed=True, ended=False, revision=0, token=token))
        self.surge_steps.populate()
        for number, cap in enumerate(self.scenario.caps):
            for namespace in (-1,) if cap.is_shared else range(self.scenario.namespaces):
                if self.scenario.are_caps_new:
                    self.truth.ledgers[Key(number, namespace)] = StoredLedger(None, self.truth.revision, {})
                else:
                    self._create_ledger(Key(number, namespace))

    def _create_ledger(self, key: Key) -> None:
        """Store the ledger of a cap, with the pods that exist at the start."""
        labels, resources = self.truth.labels, self.policies[0].resources
        mappings = MAPPINGS if self.scenario.has_classes else NO_MAPPINGS
        used_by_pod = {
            uid: amounts(pod.size, resources)
            for uid, pod in self.truth.pods.items()
            if is_under(self.scenario, labels, key, pod)
        }
        ledger = Ledger(
            self.policies[0].list_limits(key, 0),
            amounts(sum(used[X] for used in used_by_pod.values()), resources),
            resources=resources | list_sources(mappings),
            pods_revision=self.truth.revision,
            namespaces_revision=1,
            namespaces_hash=hash_members(self.scenario, labels, key),
            surge=Surge(self.policies[0].list_surge(key)),
            mappings=mappings,
        )
        self.truth.ledgers[key] = StoredLedger(ledger, self.truth.revision, used_by_pod)

    def _create_uid(self) -> str:
        self._uids += 1
        return f"u{self._uids}"

    def _choose_size(self, number: int) -> int:
        smallest, largest = self.scenario.sizes
        return smallest + number % (largest - smallest + 1)

    # Users and kubelets

    def _create(self, a: int, b: int, c: int) -> str:
        if len(self.requests) >= _MAX_REQUESTS:
            return ""
        namespace, name = a % self.scenario.namespaces, f"p{b % _NAMES}"
        size, classed = self._choose_size(c), (c >> 8) % 3 > 0
        uid = self._create_uid()
        return self._accept(Request(uid, Operation.CREATE, namespace, name, size, classed, self.truth.now))

    def _change(self, a: int, b: int, c: int) -> str:
        pod = self._pick_running_pod(a)
        if pod is None or len(self.requests) >= _MAX_REQUESTS:
            return ""
        size, classed = self._choose_size(b), pod.classed if c % 3 else not pod.classed
        request = Request(pod.uid, Operation.UPDATE, pod.namespace, pod.name, size, classed, self.truth.now)
        request.template = pod.template
        self._refresh(request, pod)
        return self._accept(request)

    def _accept(self, request: Request) -> str:
        if len(self.requests) >= _MAX_REQUESTS:
            return ""
        request.token = self.etcd.token
        self.truth.names_by_uid[request.uid] = (request.namespace, request.claim is not None, request.name)
        self.requests.append(request)
        self.requests_by_uid[request.uid].append(request)
        if request.claim is not None:
            claim = request.claim
            owner = f" for {claim.made_for}" if claim.made_for else f", owned by {claim.owner}" if claim.owner else ""
            what = f"the allocation of {claim.devices}" if claim.devices else f"claim {claim.name}{owner}"
            return f"{request.operation} {request.uid} arrives: {what} of {claim.alternatives}"
        line = f"{request.operation} {request.uid} (namespace {request.namespace}) with {request.size}"
        return f"{line}{'' if request.classed else ', unclassed'} arrives; it has {request.old_size}"

    def _refresh(self, request: Request, pod: Pod) -> None:
        """Call the webhook again, for the pod as it is stored now."""
        request.old_revision, request.old_size, request.old_classed = pod.revision, pod.size, pod.classed
        request.state, request.handler = RequestState.CALLING, None

    def _close(self, request: Request) -> None:
        request.state = RequestState.OVER
        self.requests.remove(request)
        of_pod = self.requests_by_uid[request.uid]
        of_pod.remove(request)
        if not of_pod:
            del self.requests_by_uid[request.uid]

    def _delete(self, a: int, _b: int, _c: int) -> str:
        pod = pick(list(self.truth.pods.values()), a)
        if pod is None or self.truth.is_stalled:
            return ""
        self.truth.delete(pod.uid)
        return f"{pod.uid} is deleted (revision {self.truth.revision})"

    def _end(self, a: int, _b: int, _c: int) -> str:
        return self._update_status(a, "ends", ended=True)

    def _touch(self, a: int, _b: int, _c: int) -> str:
        return self._update_status(a, "has another status", ended=False)

    def _update_status(self, a: int, change: str, *, ended: bool) -> str:
        pod = self._pick_running_pod(a)
        if pod is None or self.truth.is_stalled:
            return ""
        self.truth.put(pod._replace(ended=ended))
        return f"{pod.uid} {change} (revision {self.truth.revision})"

    def _pick_running_pod(self, number: int) -> Pod | None:
        return pick([pod for pod in self.truth.pods.values() if not pod.ended], number)

    # The API server and its webhook calls

    def _call(self, a: int, b: int, _c: int) -> str:
        """Call the webhook: the first time, or again while the previous handler may still run."""
        request = pick([each for each in self.requests if each.state is RequestState.CALLING], a)
        replica = self.replicas[b % len(self.replicas)]
        if request is None or len(self.handlers) >= _MAX_HANDLERS:
            return ""
        if self._has_timed_out(request):
            return f"{request.operation} {request.uid} has timed out"
        is_repeated = request.handler is not None
        if is_repeated and a % 5:
            return ""
        self._nonces += 1
        policy = self.policies[replica.policy]
        attempt = f"n{self._nonces}@{replica.clock():.0f}"
        request.resources = policy.resources
        request.handler = Handler(attempt, request, replica, policy, self.truth, self.rules, self.etcd.send)
        request.handler.token = self.etcd.token
        self.handlers.append(request.handler)
        again = " again" if is_repeated else ""
        return f"replica {replica.number} is called{again} for {request.uid}: attempt n{self._nonces}"

    def _has_timed_out(self, request: Request) -> bool:
        """Return whether the in-flight bound of a request is over, and close it then."""
        if self.truth.now - request.arrived_at < B:
            return False
        self._close(request)
        return True

    def _proceed(self, a: int, b: int, c: int) -> str:
        """Let a handler take its next step."""
        handler = self._pick_handler(a)
        if handler is None:
            return ""
        line = handler.step(b)
        if handler.phase is Phase.OVER:
            self.handlers.remove(handler)
            return f"{handler.name} {line}{self._respond(handler, is_lost=c % 16 == 0)}"
        for key in handler.confirmed:
            self.invariants.check_pod(key, handler.request.uid)
        return f"{handler.name} {line}" if line else ""

    def _respond(self, handler: Handler, *, is_lost: bool) -> str:
        request = handler.request
        if request.handler is not handler or request.state is not RequestState.CALLING:
            return "; the API server no longer waits for it"
        if is_lost:
            request.handler = None
            return "; the response is lost"
        if not handler.is_allowed:
            self._close(request)
            return "; the request is rejected"
        request.state = RequestState.ALLOWED
        request.reserved, request.charged = frozenset(handler.confirmed), frozenset(handler.evaluated)
        if request.claim is not None:
            request.claim = bind(request.claim, request.old_claim, handler.class_state)
        for key in handler.unguarded:
            if key in handler.confirmed and key.cap in handler.enforced:
                raise ViolationError(f"unguarded: {key} reserves for {request.uid} without a limit, and was active")
        request.resources, request.labels_revision = handler.policy.resources, handler.labels_revision
        return ""

    def _give_up(self, a: int, _b: int, _c: int) -> str:
        handler = self._pick_handler(a)
        line = handler.give_up() if handler else ""
        return f"{handler.name} {line}" if handler and line else ""

    def _pick_handler(self, number: int) -> Handler | None:
        return pick([each for each in self.handlers if not each.replica.is_frozen], number)

    def _store(self, a: int, _b: int, _c: int) -> str:
        """Send an allowed request to etcd, before its in-flight bound is over."""
        request = pick([each for each in self.requests if each.state is RequestState.ALLOWED], a)
        if request is None:
            return ""
        if self._has_timed_out(request):
            return f"{request.operation} {request.uid} has timed out"
        request.state = RequestState.SENT
        self.truth.commit(lambda: self._commit_pod(request))
        return f"{request.operation} {request.uid} is sent to etcd" + (
            "" if self.truth.waiting else f" and stored (revision {self.truth.revision})"
        )

    def _commit_pod(self, request: Request) -> None:
        if request.claim is not None:
            if self.claim_steps.commit(request):
                request.state, request.handler = RequestState.CALLING, None
            else:
                self._close(request)
            return
        truth, pod = self.truth, self.truth.pods.get(request.uid)
        operation, size, classed = request.operation, request.size, request.classed
        if operation is Operation.CREATE and (request.namespace, request.name) not in truth.names:
            new = Pod(request.uid, request.namespace, request.name, size, classed, ended=False, revision=0)
            new = new._replace(template=request.template)
        elif operation is Operation.UPDATE and pod is not None and pod.revision == request.old_revision:
            new = pod._replace(size=size, classed=classed)
        elif operation is Operation.UPDATE and pod is not None and not pod.ended:
            self._refresh(request, pod)  # the stored pod has changed: admission runs again
            return
        else:
            self._close(request)
            return
        truth.put(new if new.token else new._replace(token=request.token))
        self._close(request)
        self.invariants.check_stored(request.uid, request)

    # Time, labels and policies

    def _tick(self, _a: int, _b: int, _c: int) -> str:
        self.truth.now += 1
        return f"time {self.truth.now}"

    def _relabel(self, a: int, b: int, _c: int) -> str:
        """Let a namespace enter a cap or leave it."""
        namespace, cap = a % self.scenario.namespaces, b % len(self.scenario.caps)
        labels = list(self.truth.labels)
        labels[namespace] = labels[namespace] ^ {cap}
        self.truth.relabel(tuple(labels))
        enters = cap in labels[namespace]
        if enters:
            self._excuse_pods(namespace, cap)
        return f"namespace {namespace} {'enters' if enters else 'leaves'} cap {cap} (revision {self.truth.revision})"

    def _excuse_pods(self, namespace: int, cap: int) -> None:
        keys = [key for key in list_keys(self.scenario, self.truth.labels, namespace) if key.cap == cap]
        for uid, pod in self.truth.pods.items():
            if pod.namespace == namespace:
                for key in keys:
                    for name in (X, Y):
                        self.invariants.excuse(key, uid, name)

    def _annotate(self, a: int, b: int, c: int) -> str:
        """Let an annotation of a namespace set the limit of a cap until a time, or remove it."""
        namespace, cap = a % self.scenario.namespaces, (a >> 8) % len(self.scenario.caps)
        override = Override(cap, 1 + b % 8, self.truth.now + 1 + c % 12) if b % 5 else None
        self.truth.annotate(namespace, override)
        what = "has no limit" if override is None else f"sets {override.hard} of cap {cap} until {override.end}"
        return f"the annotation of namespace {namespace} {what} (revision {self.truth.revision})"

    def _publish(self, a: int, b: int, c: int) -> str:
        """Publish a policy with another limit or other resources."""
        last = self.policies[-1]
        hard = list(last.hard)
        hard[a % len(hard)] = 1 + b % 8
        resources = frozenset({X, Y}) if Y not in last.resources else frozenset({X})
        self.policies.append(replace(last, hard=tuple(hard)) if c % 3 else replace(last, resources=resources))
        return f"policy {len(self.policies) - 1} is published: {hard if c % 3 else sorted(resources)}"

    def _override(self, a: int, b: int, c: int) -> str:
        """Publish a policy with another limit of a cap until a time, in place of the last override."""
        override = Override(a % len(self.scenario.caps), 1 + b % 8, self.truth.now + 1 + c % 12)
        self.policies.append(replace(self.policies[-1], override=override))
        return (
            f"policy {len(self.policies) - 1} is published: cap {override.cap} has {override.hard} until {override.end}"
        )

    def _toggle_cap(self, a: int, _b: int, _c: int) -> str:
        """Publish a policy without a cap, or with it again."""
        cap = a % len(self.scenario.caps)
        caps = self.policies[-1].caps ^ {cap}
        self.policies.append(replace(self.policies[-1], caps=caps))
        return f"policy {len(self.policies) - 1} is published, with{'' if cap in caps else 'out'} cap {cap}"
