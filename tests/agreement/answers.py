"""The answers of the gate, check, audit, usage and scenarios to one drawn case, as findings and charges."""

import base64
import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from click.testing import CliRunner

from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.accounting.quantity import Quantity
from tallygate.admission.created_pods import find_rejections
from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.admission.request import Phase, UserInfo
from tallygate.answers.api_validation import apply_patch, validate_object
from tallygate.answers.created_pods import set_pod_defaults
from tallygate.cli.app import root
from tallygate.cli.scenarios.api_server import ApiRequest, ObjectKey
from tallygate.cli.scenarios.scenario import Scenario
from tallygate.cli.scenarios.simulated_cluster import SimulatedCluster
from tallygate.cli.sources.snapshot_items import LIST_MARKS
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.gate import Gate
from tallygate.gate.ledger_reconciler import LedgerReconciler
from tallygate.policy.model import PolicySet, SourceLocation
from tallygate.policy.parse import parse
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers
from tests.agreement.drawn import GPU, LICENCE, NAMESPACES, PROBE_LABEL, DrawnCase, Object
from tests.cli.usage.clusters import load_snapshot, write_snapshot

HOME = NAMESPACES[0]
"""The namespace of the new object."""

_ACTIVATION_SECONDS = 100.0
_FIRST_REVISION = 1000
_MADE_KINDS = ("ReplicaSet", "Pod", "ResourceClaim")
_DEVICE_KINDS = {"ResourceClaim", "ResourceClaimTemplate"}
_TEXT = re.compile(
    r"(?:(?P<field>(?:spec|metadata|status)\S*): )?(?P<message>.*) "
    r"\((?P<code>TG\d{3})(?:, (?P<policy>(?:rule|cap|check) [\w-]+))?(?:: [^()]*)?\)",
    re.DOTALL,
)
_OBJECT = re.compile(r'\A\w+ "[^"]*": ')
_CONSUMERS = re.compile(r"; top consumers: [^.]*\.")
_EXCESS = re.compile(
    r"\Acap (?P<cap>\S+) .*exceeded: requested \S+ (?P<name>[^\s,]+).*?, "
    r"used (?P<used>[^\s,]+), reserved (?P<reserved>[^\s,]+), "
)


class Finding(NamedTuple):
    """One problem, with the level at which it is reported and the policy that reports it."""

    level: str
    code: str
    policy: str
    field: str
    message: str


class Charge(NamedTuple):
    """The name of a cap, a member namespace, and a name that it limits."""

    cap: str
    namespace: str
    name: str


Charges = Mapping[Charge, Quantity]


@dataclass
class Answer:
    """The findings about a new object, who rejects it, its body after admission, and the charges afterwards."""

    findings: set[Finding] = field(default_factory=set)
    rejected_by: str = ""
    body: Object = field(default_factory=dict)
    charges: Charges = field(default_factory=dict)


def create_finding(level: str, code: str, policy: str, path: str, message: str) -> Finding:
    """Return a finding in the form that all answers share.

    A request and its limit are one mistake for `check`, and only the gate knows the top consumers.
    """
    path = path.replace(".requests[", ".limits[").replace(".requests", ".limits")
    return Finding(level, code, policy, path, _CONSUMERS.sub(".", message))


def parse_text(level: str, text: str, path: str = "") -> Finding:
    """Return the finding that a text of the gate describes."""
    found = _TEXT.fullmatch(text.removeprefix(f"{path}: "))
    assert found, text
    return create_finding(level, found["code"], found["policy"] or "", path or found["field"] or "", found["message"])


def parse_response(response: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the findings of the gate's response."""
    for cause in response.get("status", {}).get("details", {}).get("causes", ()):
        yield parse_text("error", cause["message"], cause["field"])
    for warning in response.get("warnings", ()):
        yield parse_text("warning", _OBJECT.sub("", warning))
    audited = response.get("auditAnnotations", {}).get("audit", "")
    for text in re.split(r"(?<=\)); ", audited) if audited else ():
        yield parse_text("note", text)


def parse_policies(case: DrawnCase) -> PolicySet:
    """Return the policies of a case."""
    parsed = parse([("policies.yaml", write_stream(case.policies).encode())])
    assert parsed.is_usable, parsed.findings
    return parsed.policies


def write_stream(objects: Iterable[Object]) -> str:
    """Return a YAML stream of objects."""
    return "".join(f"---\n{json.dumps(document)}\n" for document in objects)


def create_probe(namespace: str) -> Object:
    """Return a pod that no cap has room for, and that no rule and no LimitRange rejects."""
    amounts = {GPU: "4", LICENCE: "4", "cpu": "1", "memory": "1Gi"}
    resources = {"requests": amounts, "limits": amounts}
    containers = [{"name": f"c{number}", "image": "x:1", "resources": resources} for number in range(50)]
    metadata = {"name": "probe", "namespace": namespace, "labels": {PROBE_LABEL: "yes"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def read_charges(namespace: str, findings: Iterable[Finding]) -> Iterator[tuple[Charge, Quantity]]:
    """Yield what is charged under each limit that a probe exceeds, whatever the caps and the free number of pods."""
    for finding in findings:
        found = _EXCESS.match(finding.message)
        if found and found["name"] != "pods":
            charged = Quantity.parse(found["used"]) + Quantity.parse(found["reserved"])
            yield Charge(found["cap"], namespace, found["name"]), charged


class Creator(Protocol):
    """A world in which objects can be created."""

    def create(self, created: Object, *, dry_run: bool = False) -> Answer:
        """Return the answer to the creation of an object."""


def probe_charges(creator: Creator) -> Charges:
    """Return the charges that a probe in each namespace sees."""
    return {
        charge: amount
        for namespace in NAMESPACES
        for charge, amount in read_charges(namespace, creator.create(create_probe(namespace), dry_run=True).findings)
    }


class GateWorld:
    """A gate over the stored objects of a case, and the part of an API server that calls it."""

    def __init__(self, case: DrawnCase, policies: PolicySet, folder: Path) -> None:
        self.now = 1000.0
        self._state = load_snapshot(folder, list_snapshot_items(case.stored))
        self._reviews, self._revisions, nonces = count(1), count(_FIRST_REVISION), count(1)
        state = self._state
        usage_lister = UsageLister(
            state.pods,
            state.namespaces,
            self._read_clock,
            self._read_clock,
            claims=state.claims,
            devices=state.devices,
        )
        ledgers, self._reader = MemoryLedgers(is_standalone=False), _Reader()
        self._gate = Gate(
            policies=lambda: policies,
            view=ClusterView(
                namespaces=state.namespaces,
                usage_lister=usage_lister,
                cap_sources=lambda: state.get_cap_sources(policies),
                claim_templates=state.claim_templates,
                least_amounts=LeastAmounts(state.devices.list_slices, state.device_classes.find_selectors),
                find_pod_defaults=state.find_pod_defaults,
                workload_reader=self._reader,
            ),
            ledgers=ledgers,
            monotonic=self._read_clock,
            nonce=lambda: f"n{next(nonces)}",
            unix_time=self._read_clock,
        )
        reconciler = LedgerReconciler(
            caps=self._gate.get_active_caps,
            usage_lister=usage_lister,
            ledgers=ledgers,
            reader=self._reader,
            monotonic=self._read_clock,
            nonce=lambda: f"n{next(nonces)}",
        )
        self._reconciler = reconciler
        for _ in range(3):
            self._reconcile()

    def create(self, created: Object, *, dry_run: bool = False) -> Answer:
        """Return the answer to the creation of an object, as the API server calls the webhooks."""
        body = copy.deepcopy(created)
        body["metadata"].setdefault("namespace", HOME)
        body["metadata"].setdefault("uid", f"uid-{next(self._reviews)}")
        answer = Answer(body=body)
        defaults = self._state.find_pod_defaults(body["metadata"]["namespace"])
        if body["kind"] == "Pod":
            _copy_limits(body)
            set_pod_defaults(body, defaults)
        if body["kind"] not in _DEVICE_KINDS:
            response = self._review(body, Phase.MUTATING, dry_run=dry_run)
            answer.findings.update(parse_response(response))
            if not response["allowed"]:
                answer.rejected_by = "the gate"
                return answer
            patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
            body = answer.body = json.loads(apply_patch(json.dumps(body).encode(), patch))
            if body["kind"] == "Pod":
                _copy_limits(body)
        group = body["apiVersion"].rpartition("/")[0]
        target = REVIEW_TARGETS[group, body["kind"]]
        typed = target.decode(json.dumps(body).encode())
        views = target.list_pods(typed)
        if validate_object(typed, views) or (body["kind"] == "Pod" and [*find_rejections(views, views, defaults)]):
            answer.rejected_by = "the API server"
            return answer
        response = self._review(body, Phase.VALIDATING, dry_run=dry_run)
        answer.findings.update(parse_response(response))
        if not response["allowed"]:
            answer.rejected_by = "the gate"
        elif not dry_run:
            body["metadata"]["resourceVersion"] = str(next(self._revisions))
            self._reader.add(target.plural, body)
            self._observe(body)
        return answer

    def read_charges(self) -> Charges:
        """Return the charges that a probe in each namespace sees."""
        return probe_charges(self)

    def _review(self, body: Object, phase: Phase, *, dry_run: bool) -> Mapping[str, Any]:
        group, _, version = body["apiVersion"].rpartition("/")
        request = {
            "uid": f"review-{next(self._reviews)}",
            "kind": {"group": group, "version": version, "kind": body["kind"]},
            "name": body["metadata"]["name"],
            "namespace": body["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "developer"},
            "object": body,
            "dryRun": dry_run,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        decision = self._gate.admit(json.dumps(review).encode(), phase, self.now + 5)
        response: Mapping[str, Any] = json.loads(decision.body)["response"]
        assert response.get("status", {}).get("code") != 429, response
        return response

    def _observe(self, body: Object) -> None:
        """Deliver the watch event of a stored pod or claim, and count it."""
        event = json.dumps({"type": "ADDED", "object": body}).encode()
        if body["kind"] == "Pod":
            self._state.pods.apply(self._state.pods.codec.decode_event(event))
        elif body["kind"] == "ResourceClaim":
            self._state.claims.apply(self._state.claims.codec.decode_event(event))
        self._reconcile()

    def _reconcile(self) -> None:
        self.now += _ACTIVATION_SECONDS
        for key, cap in dict(self._reconciler.list_ledgers(NAMESPACES)).items():
            self._reconciler.reconcile(key, cap)

    def _read_clock(self) -> float:
        return self.now


class _Reader:
    """A reader of the admitted objects."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], Object] = {}

    def add(self, plural: str, body: Object) -> None:
        """Store an admitted object."""
        self._objects[plural, body["metadata"]["namespace"], body["metadata"]["name"]] = body

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:
        """Return the revision of a stored pod or claim, None if it does not exist."""
        plural = "resourceclaims" if kind is ConsumerKind.CLAIM else "pods"
        found = self._objects.get((plural, namespace, name))
        return None if found is None or found["metadata"]["uid"] != uid else int(found["metadata"]["resourceVersion"])

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Return the JSON of an admitted object, None if it does not exist."""
        found = self._objects.get((resource[2], namespace, name))
        return None if found is None else json.dumps(found).encode()


def _copy_limits(pod: Object) -> None:
    """Copy limits to missing requests, as the API server does."""
    for name in ("containers", "initContainers"):
        for container in pod["spec"].get(name, ()):
            resources = container.get("resources") or {}
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


class ScenarioWorld:
    """The simulated cluster of a scenario with the stored objects of a case."""

    def __init__(self, case: DrawnCase, policies: PolicySet) -> None:
        labels = {body["metadata"]["name"]: body["metadata"]["labels"] for body in case.stored[: len(NAMESPACES)]}
        self._cluster = SimulatedCluster(Scenario("drawn", policies, labels, (), SourceLocation("drawn.yaml", 1, 1)))
        for body in case.stored[len(NAMESPACES) :]:
            metadata = body["metadata"]
            key = ObjectKey(body["kind"], metadata.get("namespace", ""), metadata["name"])
            self._cluster.store.put(key, copy.deepcopy(body))
        self._cluster.wait(_ACTIVATION_SECONDS)

    def create(self, created: Object, *, dry_run: bool = False) -> Answer:
        """Return the answer to the creation of an object."""
        namespace = created["metadata"].get("namespace", HOME)
        request = ApiRequest(UserInfo("developer"), namespace, dry_run=dry_run)
        result = self._cluster.api.create(copy.deepcopy(created), request)
        answer = Answer(rejected_by=result.rejected_by)
        if answer.rejected_by == "" and not dry_run:
            key = ObjectKey(created["kind"], namespace, created["metadata"]["name"])
            answer.body = self._cluster.store.find(key) or {}
        answer.findings = {parse_text("warning", _OBJECT.sub("", text)) for text in result.warnings}
        if result.rejected_by == "the gate":
            listed = result.message.split("\n- ")[1:] or [_OBJECT.sub("", result.message)]
            answer.findings |= {parse_text("error", text) for text in listed}
        return answer

    def run_controllers(self) -> list[Object]:
        """Let the controllers run until nothing changes, and return the objects that they made, owners first."""
        before = {key for kind in _MADE_KINDS for key, _ in self._cluster.store.list_objects(kind)}
        self._cluster.reconcile()
        self._cluster.wait(_ACTIVATION_SECONDS)
        return [
            copy.deepcopy(body)
            for kind in _MADE_KINDS
            for key, body in self._cluster.store.list_objects(kind)
            if key not in before
        ]

    def read_charges(self) -> Charges:
        """Return the charges that a probe in each namespace sees."""
        return probe_charges(self)


def list_snapshot_items(stored: Iterable[Object]) -> list[Object]:
    """Return the items of a snapshot that has all objects of each kind."""
    return [*(json.loads(mark.content) for mark in LIST_MARKS.values()), *stored]


def run_command(*arguments: str) -> Mapping[str, Any]:
    """Return the output of a command as JSON."""
    result = CliRunner().invoke(root, [*arguments, "-o", "json"])
    assert result.exit_code in {0, 1}, (arguments, result.output)
    output: Mapping[str, Any] = json.loads(result.stdout)
    return output


def write_case(case: DrawnCase, folder: Path) -> tuple[str, ...]:
    """Write the policies and the snapshot of a case, and return the options that name them."""
    policies = folder / "policies.yaml"
    policies.write_text(write_stream(case.policies))
    snapshot = write_snapshot(folder, list_snapshot_items(case.stored))
    return ("--policies", str(policies), "--snapshot", str(snapshot))


def ask_check(case: DrawnCase, folder: Path) -> Answer:
    """Return the findings of check about the new object, and the charges that probes after it see."""
    options, manifests = write_case(case, folder), folder / "manifests.yaml"
    probes = dict(enumerate(NAMESPACES, 1))
    manifests.write_text(write_stream([case.created, *map(create_probe, NAMESPACES)]))
    answer, by_document = Answer(), dict[int, list[Finding]]()
    for found in run_command("check", *options, "-n", HOME, str(manifests))["findings"]:
        reporters = found["by"].split(" and ")
        if found["document"] == 0 and "the API server" in reporters:
            answer.rejected_by = "the API server"
        if reporters[0].startswith(("rule ", "cap ")):
            finding = create_finding(found["level"], found["code"], reporters[0], found["field"], found["message"])
            by_document.setdefault(found["document"], []).append(finding)
    answer.findings = set(by_document.get(0, ()))
    errors = {finding.policy.partition(" ")[0] for finding in answer.findings if finding.level == "error"}
    if "rule" in errors or (errors and not answer.rejected_by):
        answer.rejected_by = "the gate"
    answer.charges = {
        charge: amount
        for number, namespace in probes.items()
        for charge, amount in read_charges(namespace, by_document.get(number, ()))
    }
    return answer


def ask_audit(case: DrawnCase, folder: Path) -> tuple[set[Finding], set[Finding]]:
    """Return the findings of the audit about the stored object of the new one's name, and those about caps."""
    of_object, of_caps = set[Finding](), set[Finding]()
    for found in run_command("audit", *write_case(case, folder))["findings"]:
        finding = create_finding(found["level"], found["code"], found["by"], found["field"], found["message"])
        if found["object"]["kind"] in {"Namespace", "NamespaceCap"}:
            of_caps.add(finding)
        elif found["object"]["name"] == case.created["metadata"]["name"]:
            of_object.add(finding)
    return of_object, of_caps


class Usage(NamedTuple):
    """A line of usage: a limit with the used amount; namespace and group are empty where a cap has none."""

    cap: str
    namespace: str
    group: str
    name: str
    used: Quantity
    hard: Quantity | None


def ask_usage(case: DrawnCase, folder: Path) -> list[Usage]:
    """Return the lines of usage."""
    return [
        Usage(
            line["cap"],
            line["namespace"] or "",
            line["group"] or "",
            line["resource"],
            _create_quantity(line["used"], line["unit"]),
            None if line["hard"] is None else _create_quantity(line["hard"], line["unit"]),
        )
        for line in run_command("usage", *write_case(case, folder))["items"]
    ]


def _create_quantity(amount: int, unit: str) -> Quantity:
    return Quantity.parse(f"{amount}m" if unit == "milli" else f"{amount}")
