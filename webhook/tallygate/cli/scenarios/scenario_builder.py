"""The construction of a scenario from a document that matches the schema.

The builder reports the problems that the schema cannot express, for example a step with two actions.

The objects that steps send: in short form, as a manifest, or in a file beside the scenario.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.names import REQUESTS_PREFIX
from tallygate.accounting.quantity import Quantity
from tallygate.admission.kinds import ReviewTargets, list_review_targets
from tallygate.admission.request import UserInfo
from tallygate.cli.manifests.known_fields import find_unknown_fields
from tallygate.cli.manifests.manifest_files import get_code, load_manifests
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.cli.manifests.typed_objects import is_read
from tallygate.cli.manifests.unread_kinds import find_wrong_kind
from tallygate.cli.scenarios.scenario import (
    Action,
    Allocate,
    Annotate,
    Create,
    Delete,
    End,
    Expectation,
    JsonObject,
    Label,
    LedgerExpectation,
    NodeExpectation,
    Resize,
    Scale,
    Scenario,
    ScenarioStep,
    ScenarioVerdict,
    StepTarget,
    Update,
    Wait,
)
from tallygate.documents.syntax_tree import DocumentError, Entry, Limits, Mapping, Node, Scalar
from tallygate.documents.to_json import to_json, to_plain
from tallygate.errors import TallygateError
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.load import SHIPPED_POLICIES, load_policies
from tallygate.policy.model import NamespaceCap, PolicySet, SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import (
    BAD_LENGTH,
    BAD_NAME,
    MISSING_FIELD,
    UNKNOWN_FIELD,
    UNKNOWN_VALUE,
    UNREADABLE,
    WRONG_TYPE,
)
from tallygate.policy.suggest import format_suggestion
from tallygate.policy.times import parse_time
from tallygate.server.settings.value_types import parse_duration

WORKLOAD_KINDS: Final = {"deployment": ("apps/v1", "Deployment"), "statefulset": ("apps/v1", "StatefulSet")}
SHORT_FORMS: Final = {"pod": ("v1", "Pod"), **WORKLOAD_KINDS, "job": ("batch/v1", "Job")}
"""The API version and kind of each short form."""
_INPUT_LIMITS = Limits(size=1 << 20, depth=40, documents=10, nodes=50_000, expanded=10_000)
_MAX_DIGITS: Final = 18
_SHORT_FIELDS: Final = (
    "replicas",
    "resources",
    "requests",
    "limits",
    "labels",
    "priorityClass",
    "nodeSelector",
)


def get_mapping(fields: Fields, name: str) -> dict[str, Any]:
    """Return the value of a mapping field; empty if the field is absent."""
    value = to_plain(fields.get_node(name))
    return value if isinstance(value, dict) else {}


def parse_count(node: Node | None) -> int | None:
    """Return the value of a field that the schema has validated as a number of pods."""
    return int(node.text) if isinstance(node, Scalar) else None


class StepObjectError(TallygateError):
    """A step whose object is missing, ambiguous or unreadable; the finding has the reason."""

    def __init__(self, finding: LintFinding) -> None:
        self.finding = finding
        super().__init__(str(finding))


def build_object(fields: Fields, source: SourceLocation, targets: ReviewTargets) -> JsonObject:
    """Return the object of a step.

    Raises:
        StepObjectError: if the step names no object or several, or its file contains anything else.
    """
    forms = [name for name in (*SHORT_FORMS, "manifest", "file") if fields.get_node(name) is not None]
    if not forms:
        raise _create_error(
            source, MISSING_FIELD, f"which object? name one by {', '.join(SHORT_FORMS)}, manifest or file"
        )
    if len(forms) > 1:
        raise _create_error(source, UNKNOWN_FIELD, f"{forms[0]} and {forms[1]} are two objects; write two steps")
    (form,) = forms
    extra = [name for name in _SHORT_FIELDS if fields.get_node(name) is not None]
    if form not in SHORT_FORMS and extra:
        raise _create_error(
            source, UNKNOWN_FIELD, f"{extra[0]} is given beside {form}, which is the whole object; write it there"
        )
    if form == "pod" and fields.get_node("replicas") is not None:
        raise _create_error(
            source, UNKNOWN_FIELD, "replicas: a pod is one; name a deployment, statefulset or job instead"
        )
    if form == "manifest":
        written = get_mapping(fields, "manifest")
        node = fields.get_node("manifest")
        if isinstance(node, Mapping):
            identity = (str(written["apiVersion"]), str(written["kind"]), "", "")
            _check_fields(Manifest(source.file, 0, "", *identity, node), targets)
        return written
    if form == "file":
        return _read_object(fields.get_text("file"), source, targets)
    return _build_short_form(form, fields)


def get_requests_and_limits(fields: Fields) -> tuple[JsonObject, JsonObject]:
    """Return the written requests and limits; `resources` sets both."""
    resources = get_mapping(fields, "resources")
    return {**resources, **get_mapping(fields, "requests")}, {**resources, **get_mapping(fields, "limits")}


def _build_short_form(form: str, fields: Fields) -> JsonObject:
    version, kind = SHORT_FORMS[form]
    name = fields.get_text(form)
    labels, spec = get_mapping(fields, "labels"), _build_pod_spec(fields)
    head = {"apiVersion": version, "kind": kind}
    if kind == "Pod":
        return {**head, "metadata": {"name": name, "labels": labels}, "spec": spec}
    replicas = to_plain(fields.get_node("replicas"))
    template = {"metadata": {"labels": {**labels, "app": name}}, "spec": spec}
    replica_fields = {} if replicas is None else {"parallelism" if kind == "Job" else "replicas": replicas}
    if kind == "Job":
        return {**head, "metadata": {"name": name}, "spec": {**replica_fields, "template": template}}
    selector = {"matchLabels": {"app": name}}
    return {**head, "metadata": {"name": name}, "spec": {**replica_fields, "selector": selector, "template": template}}


def _build_pod_spec(fields: Fields) -> JsonObject:
    requests, limits = get_requests_and_limits(fields)
    resources = {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}
    spec: JsonObject = {"containers": [{"name": "main", "resources": resources}]}
    if fields.get_text("priorityClass"):
        spec["priorityClassName"] = fields.get_text("priorityClass")
    if selector := get_mapping(fields, "nodeSelector"):
        spec["nodeSelector"] = selector
    return spec


def _read_object(path: str, source: SourceLocation, targets: ReviewTargets) -> JsonObject:
    full_path = str(Path(source.file).parent / path)
    intake = load_manifests((full_path,), io.BytesIO(), _INPUT_LIMITS, lambda names: names)
    for finding in intake.findings:
        raise StepObjectError(
            LintFinding(finding.file, finding.line, finding.column, finding.code, Severity.ERROR, finding.message),
        )
    if len(intake.manifests) != 1:
        raise _create_error(
            source, UNREADABLE, f"{full_path} contains {len(intake.manifests)} objects; a step sends one"
        )
    (manifest,) = intake.manifests
    _check_fields(manifest, targets)
    try:
        body: Any = json.loads(
            to_json(manifest.node, _INPUT_LIMITS.expanded), parse_float=str, parse_int=_parse_integer
        )
    except DocumentError as error:
        position = SourceLocation(full_path, *error.position)
        raise _create_error(position, get_code(error), error.message) from error
    typed_body: JsonObject = {**body, "apiVersion": manifest.api_version, "kind": manifest.kind}
    metadata = typed_body.get("metadata")
    if not isinstance(metadata, dict | None):
        position = SourceLocation(full_path, *manifest.node.position)
        raise _create_error(position, WRONG_TYPE, "metadata: must be a mapping")
    return typed_body


def _check_fields(manifest: Manifest, targets: ReviewTargets) -> None:
    """Check that API servers have the kind and the fields of an object.

    Raises:
        StepObjectError: if they do not; the finding has the first mistake.
    """
    if wrong_kind := find_wrong_kind(manifest, targets):
        position = SourceLocation(manifest.file, *wrong_kind.position)
        raise _create_error(position, UNKNOWN_VALUE, wrong_kind.message)
    unknown_fields = find_unknown_fields(manifest, targets) if is_read(manifest, targets) else ()
    for unknown in sorted(unknown_fields, key=lambda each: each.position):
        position = SourceLocation(manifest.file, *unknown.position)
        raise _create_error(position, UNKNOWN_FIELD, f"{unknown.field}: {unknown.message}")


def _parse_integer(text: str) -> int | str:
    """Return an integer; one with more than 18 digits, which exceeds every number of Kubernetes, stays a string."""
    return int(text) if len(text) <= _MAX_DIGITS else text


_KINDS: Final = {
    "pod": "Pod",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "job": "Job",
    "daemonset": "DaemonSet",
    "replicaset": "ReplicaSet",
    "namespace": "Namespace",
    "node": "Node",
    "resourceclaim": "ResourceClaim",
    "resourceclaimtemplate": "ResourceClaimTemplate",
    "deviceclass": "DeviceClass",
    "resourceslice": "ResourceSlice",
    "devicetaintrule": "DeviceTaintRule",
}

_AUTHENTICATED: Final = "system:authenticated"
_DEVELOPER: Final = "developer"
_DEFAULT: Final = "default"
_AMOUNT_KINDS: Final = ("used", "reserved", "free")


def build_action(node: Node, source: SourceLocation, targets: ReviewTargets) -> Action:
    """Build the action of a step.

    Raises:
        StepObjectError: if the step has no action or several, or does not name its object.
    """
    fields = Fields(node)
    names = [name for name in _ACTIONS if fields.get_node(name) is not None]
    value = fields.get_node(names[0]) if len(names) == 1 else None
    if value is None:
        raise _create_error(source, *_describe_action_count(names))
    location = SourceLocation(source.file, *value.position)
    if names[0] in _SENDING_ACTIONS:
        return _SENDING_ACTIONS[names[0]](build_object(fields.get_fields(names[0]), location, targets))
    if names[0] == _DELETE:
        return Delete(_build_deleted_target(fields.get_fields(_DELETE), location, targets))
    return _ACTION_BUILDERS[names[0]](fields, names[0], location)


def _describe_action_count(names: list[str]) -> tuple[str, str]:
    """Return the code and the message for a step with no action or several."""
    if not names:
        return MISSING_FIELD, (f"a step does one thing, and this one does nothing; write one of {', '.join(_ACTIONS)}")
    return UNKNOWN_FIELD, f"a step does one thing, and this one does {' and '.join(names)}; write {len(names)} steps"


def _build_target(fields: Fields, source: SourceLocation) -> StepTarget:
    """Build the target from the one object that the step names."""
    kinds = [name for name in _KINDS if fields.get_node(name) is not None]
    if len(kinds) != 1:
        if kinds:
            raise _create_error(source, UNKNOWN_FIELD, f"{kinds[0]} and {kinds[1]} are two objects; name one")
        raise _create_error(source, MISSING_FIELD, "which object? name one by its kind, as in pod: trainer")
    return StepTarget(_KINDS[kinds[0]], fields.get_text(kinds[0]))


def _build_deleted_target(fields: Fields, source: SourceLocation, targets: ReviewTargets) -> StepTarget:
    """Build the target from the one object that the step names, which may be of a kind of another project."""
    text = fields.get_text("object")
    if not text:
        return _build_target(fields, source)
    if len(fields.list_names()) > 1:
        raise _create_error(source, UNKNOWN_FIELD, "object is given beside another object; name one")
    kind, _, name = text.partition("/")
    found = [f"{each}.{group}" for (group, each), target in targets.items() if target.definition is not None]
    matching = [kind] if "." in kind else [each for each in found if each.partition(".")[0] == kind]
    if len(matching) != 1 or not name:
        advice = f"write KIND/NAME, as in {matching[-1] if matching else 'GangJob.batch.example.com'}/{name or 'small'}"
        problem = "several groups have this kind" if len(matching) > 1 else "no kind of another project is named so"
        raise _create_error(source, UNKNOWN_VALUE, f"object {quote_text(text)}: {problem}; {advice}")
    return StepTarget(matching[0], name)


def _build_resize(fields: Fields, name: str, source: SourceLocation) -> Action:
    value = fields.get_fields(name)
    requests, limits = get_requests_and_limits(value)
    return Resize(_build_target(value, source), value.get_text("container"), requests, limits)


def _build_label(fields: Fields, name: str, source: SourceLocation) -> Action:
    value = fields.get_fields(name)
    return Label(_build_target(value, source), get_mapping(value, "labels"))


def _build_annotate(fields: Fields, name: str, source: SourceLocation) -> Action:
    value = fields.get_fields(name)
    return Annotate(_build_target(value, source), get_mapping(value, "annotations"))


def _build_allocation(fields: Fields, name: str, source: SourceLocation) -> Action:
    value = fields.get_fields(name)
    pairs = value.get_node("devices")
    entries = pairs.entries if isinstance(pairs, Mapping) else ()
    counts = {entry.name: parse_count(entry.value) or 0 for entry in entries}
    names, total = value.get_texts("names"), sum(counts.values())
    if names and len(names) != total:
        raise _create_error(source, BAD_LENGTH, f"names has {len(names)} entries for {total} devices; name each device")
    ids = tuple(_parse_device(name, source) for name in names) or tuple(_simulate_devices(counts))
    return Allocate(_build_target(value, source), counts, ids)


def _parse_device(name: str, source: SourceLocation) -> DeviceId:
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    if not (driver and pool and device):
        raise _create_error(source, BAD_NAME, f"{name} is no device; write DRIVER/POOL/DEVICE, as in a ResourceSlice")
    return DeviceId(driver, pool, device)


def _simulate_devices(counts: dict[str, int]) -> Iterator[DeviceId]:
    for request, count in counts.items():
        for number in range(count):
            yield DeviceId("simulated", "pool", f"{request}-{number}".replace("/", "-"))


_DELETE: Final = "delete"
_SENDING_ACTIONS: dict[str, Callable[[JsonObject], Action]] = {"create": Create, "update": Update}
_ACTION_BUILDERS: dict[str, Callable[[Fields, str, SourceLocation], Action]] = {
    "resize": _build_resize,
    "scale": lambda fields, name, source: Scale(
        _build_target(fields.get_fields(name), source), parse_count(fields.get_fields(name).get_node("replicas")) or 0
    ),
    "finish": lambda fields, name, source: End(_build_target(fields.get_fields(name), source), "Succeeded"),
    "fail": lambda fields, name, source: End(_build_target(fields.get_fields(name), source), "Failed"),
    "label": _build_label,
    "annotate": _build_annotate,
    "allocate": _build_allocation,
    "wait": lambda fields, name, _: Wait(parse_duration(fields.get_text(name)), fields.get_text(name)),
}
_OTHER_ACTIONS: Final = ("resize", "scale", _DELETE, "finish", "fail", "label", "annotate", "allocate", "wait")
_ACTIONS: Final = (*_SENDING_ACTIONS, *_OTHER_ACTIONS)


def _create_error(source: SourceLocation, code: str, message: str) -> StepObjectError:
    return StepObjectError(LintFinding.create(source, code, Severity.ERROR, message))


class _ScenarioBuilder:
    """The builder of one scenario; it collects the problems as findings."""

    def __init__(self, file: str, document: Mapping) -> None:
        self.file = file
        self.document = document
        self.fields = Fields(document)
        self.findings: list[LintFinding] = []
        self.usable = False

    def build(self) -> Scenario | None:
        """Return the scenario; None if it has a problem."""
        policies = self._read_policies()
        namespaces = {name: get_mapping(Fields(node), "labels") for name, node in self._list_pairs("namespaces")}
        namespaces = namespaces or {_DEFAULT: {}}
        steps: list[ScenarioStep | None] = []
        known_namespaces = list(namespaces)
        for node in self.fields.get_items("steps"):
            steps.append(self._build_step(node, policies, known_namespaces))
            known_namespaces += _list_created_namespaces(steps[-1])
        if self.findings:
            return None
        return Scenario(
            self.fields.get_text("name"),
            policies,
            namespaces,
            tuple(step for step in steps if step is not None),
            self._create_source(self.document),
            {name: to_plain(node) for name, node in self._list_pairs("nodes")},
            parse_time(time) if (time := self.fields.get_text("time")) else None,
            {name: get_mapping(Fields(node), "annotations") for name, node in self._list_pairs("namespaces")},
        )

    def _list_pairs(self, name: str) -> Iterator[tuple[str, Node]]:
        for entry in _list_entries(self.fields.get_node(name)):
            yield entry.name, entry.value

    def _create_source(self, node: Node) -> SourceLocation:
        return SourceLocation(self.file, *node.position)

    def _read_policies(self) -> PolicySet:
        policy_nodes = self.fields.get_items("policies")
        folder = Path(self.file).parent
        paths = [folder / node.text for node in policy_nodes if isinstance(node, Scalar)]
        inline_policies = [(self.file, node) for node in policy_nodes if isinstance(node, Mapping)]
        parsed = load_policies(paths if policy_nodes else (SHIPPED_POLICIES,), inline_policies)
        self.usable = parsed.is_usable
        self.findings += [finding for finding in parsed.findings if finding.severity is Severity.ERROR]
        return parsed.policies

    def _build_step(self, node: Node, policies: PolicySet, namespaces: list[str]) -> ScenarioStep | None:
        fields = Fields(node)
        namespace_node = fields.get_node("namespace")
        namespace = fields.get_text("namespace", namespaces[0])
        if namespace_node is not None:
            self._check_known(namespace_node, namespace, namespaces, "namespace")
        action = self._build_action(node, list_review_targets(policies))
        expectation = self._build_expectation(fields.get_fields("expect"), policies, namespaces, namespace)
        if action is None:
            return None
        dry_run = fields.get_flag("dryRun", default=False)
        return ScenarioStep(
            action, namespace, _build_user(fields.get_fields("as")), expectation, self._create_source(node), dry_run
        )

    def _build_action(self, node: Node, targets: ReviewTargets) -> Action | None:
        try:
            return build_action(node, self._create_source(node), targets)
        except StepObjectError as error:
            self.findings.append(error.finding)
            return None

    def _build_expectation(
        self, fields: Fields, policies: PolicySet, namespaces: list[str], namespace: str
    ) -> Expectation:
        pods = fields.get_fields("pods")
        return Expectation(
            ScenarioVerdict(fields.get_text("verdict", ScenarioVerdict.ALLOWED)),
            fields.get_texts("codes") if fields.get_node("codes") else None,
            fields.get_text("message") if fields.get_node("message") else None,
            fields.get_texts("warnings") if fields.get_node("warnings") else None,
            dict(fields.get_fields("filled").get_pairs()) if fields.get_node("filled") else None,
            parse_count(pods.get_node("created")),
            parse_count(pods.get_node("missing")),
            tuple(
                self._build_ledger_expectation(item, policies, namespaces, namespace)
                for item in fields.get_items("ledger")
            ),
            tuple(self._build_node_expectation(entry) for entry in _list_entries(fields.get_node("nodes"))),
        )

    def _build_node_expectation(self, entry: Entry) -> NodeExpectation:
        known_nodes = [name for name, _ in self._list_pairs("nodes")]
        self._check_known(entry.key, entry.name, known_nodes, "node")
        fields = Fields(entry.value)
        problems = dict(fields.get_fields("problems").get_pairs()) if fields.get_node("problems") else None
        return NodeExpectation(entry.name, _parse_quantities(fields.get_fields("published")), problems)

    def _build_ledger_expectation(
        self, node: Node, policies: PolicySet, namespaces: list[str], namespace: str
    ) -> LedgerExpectation:
        fields = Fields(node)
        caps = {cap.name: cap for cap in policies.caps}
        name = fields.get_text("cap")
        if self.usable:
            self._check_known(fields.get_node("cap") or node, name, list(caps), "cap")
            self._check_resources(fields, caps.get(name))
        namespace_node = fields.get_node("namespace")
        if namespace_node is not None:
            self._check_known(namespace_node, fields.get_text("namespace"), namespaces, "namespace")
        shared = name in caps and caps[name].shared and not caps[name].group_by
        amounts = {
            kind: _parse_quantities(fields.get_fields(kind))
            for kind in _AMOUNT_KINDS
            if fields.get_node(kind) is not None
        }
        ledger_namespace = "" if shared else fields.get_text("namespace", namespace)
        return LedgerExpectation(name, ledger_namespace, amounts, self._create_source(node))

    def _check_resources(self, fields: Fields, cap: NamespaceCap | None) -> None:
        """Check that the cap counts the expected resources; an unknown resource would compare as an amount of 0."""
        resources = sorted({*cap.hard, *cap.soft}) if cap is not None else []
        for kind in _AMOUNT_KINDS:
            value = fields.get_node(kind)
            for entry in value.entries if cap is not None and isinstance(value, Mapping) else ():
                name = entry.name.removeprefix(REQUESTS_PREFIX)
                self._check_known(entry.key, name, resources, "name that the cap counts")

    def _check_known(self, node: Node, name: str, known_names: list[str], noun: str) -> None:
        if name not in known_names:
            hint = format_suggestion(name, known_names) or (
                f"; there is {', '.join(known_names[:5])}" if known_names else ""
            )
            self._report(node, UNKNOWN_VALUE, f"{quote_text(name)} is no {noun} here{hint}")

    def _report(self, node: Node, code: str, message: str) -> None:
        self.findings.append(LintFinding.create(self._create_source(node), code, Severity.ERROR, message))


def build_scenario(file: str, document: Mapping) -> tuple[Scenario | None, list[LintFinding]]:
    """Return the scenario of a document and the problems beyond its schema; None if there is a problem."""
    builder = _ScenarioBuilder(file, document)
    scenario = builder.build()
    return scenario, builder.findings


def _list_entries(node: Node | None) -> Sequence[Entry]:
    return node.entries if isinstance(node, Mapping) else ()


def _list_created_namespaces(step: ScenarioStep | None) -> Iterator[str]:
    """Yield the namespace that a step creates, if any."""
    if step is not None and isinstance(step.action, Create) and step.action.body["kind"] == "Namespace":
        yield str((step.action.body.get("metadata") or {}).get("name") or "")


def _build_user(fields: Fields) -> UserInfo:
    return UserInfo(fields.get_text("user", _DEVELOPER), (*fields.get_texts("groups"), _AUTHENTICATED))


def _parse_quantities(fields: Fields) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in fields.get_pairs().items()}
