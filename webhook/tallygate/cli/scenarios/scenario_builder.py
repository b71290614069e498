"""The construction of a scenario from a document that matches the schema.

The builder reports the problems that the schema cannot express, for example a step with two actions.

The objects that steps send: in short form, as a manifest, or in a file beside the scenario.
"""

import io
import json
from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tallygate.accounting.names import REQUESTS_PREFIX
from tallygate.admission.kinds import ReviewTargets, list_review_targets
from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios import scenario_document
from tallygate.cli.scenarios.scenario import (
    Action,
    Change,
    JsonObject,
    Scenario,
    ScenarioStep,
    Send,
    StepTarget,
    Wait,
    list_resources,
    parse_device,
)
from tallygate.documents.syntax_tree import DocumentError, Limits, Mapping, Node, Scalar
from tallygate.documents.to_json import to_json, to_plain
from tallygate.errors import TallygateError
from tallygate.manifests.known_fields import find_unknown_fields
from tallygate.manifests.manifest_files import get_code, load_manifests
from tallygate.manifests.manifest_objects import Manifest
from tallygate.manifests.typed_objects import is_read
from tallygate.manifests.unread_kinds import find_wrong_kind
from tallygate.policy import policy_codes
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.load import SHIPPED_POLICIES, load_policies
from tallygate.policy.model import NamespaceCap, PolicySet, SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.suggest import format_suggestion
from tallygate.policy.times import parse_time
from tallygate.policy.written import Written, convert
from tallygate.server.settings.value_types import parse_duration

WORKLOAD_KINDS: Final = {"deployment": ("apps/v1", "Deployment"), "statefulset": ("apps/v1", "StatefulSet")}
SHORT_FORMS: Final = {"pod": ("v1", "Pod"), **WORKLOAD_KINDS, "job": ("batch/v1", "Job")}
"""The API version and kind of each short form."""
_INPUT_LIMITS = Limits(size=1 << 20, depth=40, documents=10, nodes=50_000, expanded=10_000)
_MAX_DIGITS: Final = 18
_SHORT_FIELDS: Final = ("replicas", "resources", "requests", "limits", "labels", "priorityClass", "nodeSelector")


class StepObjectError(TallygateError):
    """A step whose object is missing, ambiguous or unreadable; the finding has the reason."""

    def __init__(self, finding: LintFinding) -> None:
        self.finding = finding
        super().__init__(str(finding))


def build_object(
    written: scenario_document.StepObject, node: Node | None, source: SourceLocation, targets: ReviewTargets
) -> JsonObject:
    """Return the object of a step, whose manifest is sent as its node is written.

    Raises:
        StepObjectError: if the step names no object or several, or its file contains anything else.
    """
    fields = Fields(node)
    forms = [name for name in (*SHORT_FORMS, "manifest", "file") if fields.get_node(name) is not None]
    if not forms:
        raise _create_error(
            source, policy_codes.MISSING_FIELD, f"which object? name one by {', '.join(SHORT_FORMS)}, manifest or file"
        )
    if len(forms) > 1:
        raise _create_error(
            source, policy_codes.UNKNOWN_FIELD, f"{forms[0]} and {forms[1]} are two objects; write two steps"
        )
    (form,) = forms
    extra = [name for name in _SHORT_FIELDS if fields.get_node(name) is not None]
    if form not in SHORT_FORMS and extra:
        raise _create_error(
            source,
            policy_codes.UNKNOWN_FIELD,
            f"{extra[0]} is given in addition to {form}, which is the complete object; write it there",
        )
    if form == "pod" and fields.get_node("replicas") is not None:
        raise _create_error(
            source, policy_codes.UNKNOWN_FIELD, "replicas: a pod is one; name a deployment, statefulset or job instead"
        )
    manifest_node = fields.get_node("manifest")
    if written.manifest is not None and isinstance(manifest_node, Mapping):
        identity = (written.manifest.api_version, written.manifest.kind, "", "")
        _check_fields(Manifest(source.file, 0, "", *identity, manifest_node), targets)
        body: JsonObject = to_plain(manifest_node)
        return body
    if written.file is not None:
        return _read_object(written.file, source, targets)
    return _build_short_form(form, written)


def _build_short_form(form: str, written: scenario_document.StepObject) -> JsonObject:
    version, kind = SHORT_FORMS[form]
    name = getattr(written, form)
    labels, spec = written.labels, _build_pod_spec(written)
    head = {"apiVersion": version, "kind": kind}
    if kind == "Pod":
        return {**head, "metadata": {"name": name, "labels": labels}, "spec": spec}
    template = {"metadata": {"labels": {**labels, "app": name}}, "spec": spec}
    count_field = "parallelism" if kind == "Job" else "replicas"
    replica_fields = {} if written.replicas is None else {count_field: written.replicas}
    if kind == "Job":
        return {**head, "metadata": {"name": name}, "spec": {**replica_fields, "template": template}}
    selector = {"matchLabels": {"app": name}}
    return {**head, "metadata": {"name": name}, "spec": {**replica_fields, "selector": selector, "template": template}}


def _build_pod_spec(written: scenario_document.StepObject) -> JsonObject:
    resources = {name: amounts for name, amounts in list_resources(written) if amounts}
    spec: JsonObject = {"containers": [{"name": "main", "resources": resources}]}
    if written.priority_class:
        spec["priorityClassName"] = written.priority_class
    if written.node_selector:
        spec["nodeSelector"] = written.node_selector
    return spec


def _read_object(path: str, source: SourceLocation, targets: ReviewTargets) -> JsonObject:
    full_path = str(Path(source.file).parent / path)
    intake = load_manifests((full_path,), io.BytesIO(), _INPUT_LIMITS, lambda names: names)
    for finding in intake.findings:
        raise StepObjectError(
            LintFinding(finding.file, finding.line, finding.column, finding.code, Severity.ERROR, finding.message)
        )
    if len(intake.manifests) != 1:
        raise _create_error(
            source, policy_codes.UNREADABLE, f"{full_path} contains {len(intake.manifests)} objects; a step sends one"
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
        raise _create_error(position, policy_codes.WRONG_TYPE, "metadata: must be a mapping")
    return typed_body


def _check_fields(manifest: Manifest, targets: ReviewTargets) -> None:
    """Check that API servers have the kind and the fields of an object.

    Raises:
        StepObjectError: if they do not; the finding has the first mistake.
    """
    if wrong_kind := find_wrong_kind(manifest, targets):
        position = SourceLocation(manifest.file, *wrong_kind.position)
        raise _create_error(position, policy_codes.UNKNOWN_VALUE, wrong_kind.message)
    unknown_fields = find_unknown_fields(manifest, targets) if is_read(manifest, targets) else ()
    for unknown in sorted(unknown_fields, key=lambda each: each.position):
        position = SourceLocation(manifest.file, *unknown.position)
        raise _create_error(position, policy_codes.UNKNOWN_FIELD, f"{unknown.field}: {unknown.message}")


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
_DEFAULT: Final = "default"


def build_action(step: scenario_document.Step, node: Node, source: SourceLocation, targets: ReviewTargets) -> Action:
    """Build the action of a step.

    Raises:
        StepObjectError: if the step has no action or several, or does not name its object.
    """
    fields = Fields(node)
    names = [name for name in scenario_document.ACTIONS if fields.get_node(name) is not None]
    value = fields.get_node(names[0]) if len(names) == 1 else None
    if value is None:
        raise _create_error(source, *_describe_action_count(names))
    location = SourceLocation(source.file, *value.position)
    name, written = names[0], getattr(step, names[0])
    match written:
        case str():
            return Wait(parse_duration(written), written)
        case scenario_document.StepObject():
            return Send(name, build_object(written, value, location, targets))
        case scenario_document.DeleteStep():
            return Change(name, _build_deleted_target(written, location, targets), written)
        case scenario_document.AllocateStep():
            written = _complete_devices(written, location)
    return Change(name, _build_target(written, location), written)


def _describe_action_count(names: list[str]) -> tuple[str, str]:
    """Return the code and the message for a step with no action or several."""
    if not names:
        return policy_codes.MISSING_FIELD, (
            f"a step does one thing, and this one does nothing; write one of {', '.join(scenario_document.ACTIONS)}"
        )
    return (
        policy_codes.UNKNOWN_FIELD,
        f"a step does one thing, and this one does {' and '.join(names)}; write {len(names)} steps",
    )


def _build_target(written: Written, source: SourceLocation) -> StepTarget:
    names = {kind: name for kind in _KINDS if (name := getattr(written, kind, None)) is not None}
    if len(names) != 1:
        if names:
            first, second, *_ = names
            raise _create_error(source, policy_codes.UNKNOWN_FIELD, f"{first} and {second} are two objects; name one")
        raise _create_error(
            source, policy_codes.MISSING_FIELD, "which object? name one by its kind, as in pod: trainer"
        )
    ((kind, name),) = names.items()
    return StepTarget(_KINDS[kind], name)


def _build_deleted_target(
    written: scenario_document.DeleteStep, source: SourceLocation, targets: ReviewTargets
) -> StepTarget:
    """Build the target from the one object that the step names, which may be of a kind of another project."""
    text = written.object
    if not text:
        return _build_target(written, source)
    if written != scenario_document.DeleteStep(object=text):
        raise _create_error(source, policy_codes.UNKNOWN_FIELD, "object is given twice in different forms; name one")
    kind, _, name = text.partition("/")
    found = [f"{kind_name}.{group}" for (group, kind_name), target in targets.items() if target.definition is not None]
    matching = [kind] if "." in kind else [qualified for qualified in found if qualified.partition(".")[0] == kind]
    if len(matching) != 1 or not name:
        advice = f"write KIND/NAME, as in {matching[-1] if matching else 'GangJob.batch.example.com'}/{name or 'small'}"
        problem = "several groups have this kind" if len(matching) > 1 else "no kind of another project is named so"
        raise _create_error(source, policy_codes.UNKNOWN_VALUE, f"object {quote_text(text)}: {problem}; {advice}")
    return StepTarget(matching[0], name)


def _complete_devices(
    written: scenario_document.AllocateStep, source: SourceLocation
) -> scenario_document.AllocateStep:
    """Return the allocation with the name of each device: that of a simulated one where none is written."""
    names, total = written.names, sum(written.devices.values())
    if names and len(names) != total:
        raise _create_error(
            source, policy_codes.BAD_LENGTH, f"names has {len(names)} entries for {total} devices; name each device"
        )
    for name in names:
        if not all(parse_device(name)):
            raise _create_error(
                source,
                policy_codes.BAD_NAME,
                f"{name} is not a device; write DRIVER/POOL/DEVICE, as in a ResourceSlice",
            )
    return replace(written, names=names or tuple(_simulate_devices(written.devices)))


def _simulate_devices(counts: AnyMapping[str, int]) -> Iterator[str]:
    for request, count in counts.items():
        for number in range(count):
            yield f"simulated/pool/{f'{request}-{number}'.replace('/', '-')}"


def _create_error(source: SourceLocation, code: str, message: str) -> StepObjectError:
    return StepObjectError(LintFinding.create(source, code, Severity.ERROR, message))


class _ScenarioBuilder:
    """The builder of one scenario; it collects the problems as findings."""

    def __init__(self, file: str, document: Mapping) -> None:
        self.file = file
        self.document = document
        self.fields = Fields(document)
        self.written = convert(to_plain(document), scenario_document.ScenarioDocument)
        self.findings: list[LintFinding] = []
        self.usable = False

    def build(self) -> Scenario | None:
        """Return the scenario; None if it has a problem."""
        policies, written = self._read_policies(), self.written
        namespaces = written.namespaces or {_DEFAULT: scenario_document.ScenarioNamespace()}
        steps: list[ScenarioStep | None] = []
        known_namespaces = list(namespaces)
        for step, node in zip(written.steps, self.fields.get_items("steps"), strict=True):
            steps.append(self._build_step(step, node, policies, known_namespaces))
            known_namespaces += _list_created_namespaces(steps[-1])
        if self.findings:
            return None
        return Scenario(
            written.name,
            policies,
            {name: namespace.labels for name, namespace in namespaces.items()},
            tuple(step for step in steps if step is not None),
            self._create_source(self.document),
            to_plain(self.fields.get_node("nodes")) or {},
            parse_time(written.time) if written.time is not None else None,
            {name: namespace.annotations for name, namespace in written.namespaces.items()},
        )

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

    def _build_step(
        self, step: scenario_document.Step, node: Node, policies: PolicySet, namespaces: list[str]
    ) -> ScenarioStep | None:
        fields = Fields(node)
        namespace = namespaces[0] if step.namespace is None else step.namespace
        self._check_known(fields.get_node("namespace"), namespace, namespaces, "namespace")
        action = self._build_action(step, node, list_review_targets(policies))
        expectation = self._check_expectation(step.expect, fields.get_fields("expect"), policies, namespaces, namespace)
        if action is None:
            return None
        user = UserInfo(step.user.user, (*step.user.groups, _AUTHENTICATED))
        return ScenarioStep(action, namespace, user, expectation, self._create_source(node), step.dry_run)

    def _build_action(self, step: scenario_document.Step, node: Node, targets: ReviewTargets) -> Action | None:
        try:
            return build_action(step, node, self._create_source(node), targets)
        except StepObjectError as error:
            self.findings.append(error.finding)
            return None

    def _check_expectation(
        self,
        written: scenario_document.StepExpectation,
        fields: Fields,
        policies: PolicySet,
        namespaces: list[str],
        namespace: str,
    ) -> scenario_document.StepExpectation:
        for entry in fields.list_entries("nodes"):
            self._check_known(entry.key, entry.name, list(self.written.nodes), "node")
        ledgers = tuple(
            self._check_ledger(ledger, node, policies, namespaces, namespace)
            for ledger, node in zip(written.ledgers, fields.get_items("ledger"), strict=True)
        )
        return replace(written, ledgers=ledgers)

    def _check_ledger(
        self,
        written: scenario_document.ExpectedLedger,
        node: Node,
        policies: PolicySet,
        namespaces: list[str],
        namespace: str,
    ) -> scenario_document.ExpectedLedger:
        """Return the expected ledger with its namespace, which is empty for a shared cap."""
        fields = Fields(node)
        caps = {cap.name: cap for cap in policies.caps}
        cap = caps.get(written.cap)
        if self.usable:
            self._check_known(fields.get_node("cap"), written.cap, list(caps), "cap")
            self._check_resources(fields, cap)
        if written.namespace is not None:
            namespace = written.namespace
            self._check_known(fields.get_node("namespace"), namespace, namespaces, "namespace")
        is_shared = cap is not None and cap.shared and not cap.group_by
        return replace(written, namespace="" if is_shared else namespace)

    def _check_resources(self, fields: Fields, cap: NamespaceCap | None) -> None:
        """Check that the cap counts the expected resources; an unknown resource would compare as an amount of 0."""
        resources = sorted({*cap.hard, *cap.soft}) if cap is not None else []
        for kind in scenario_document.AMOUNT_KINDS:
            value = fields.get_node(kind)
            for entry in value.entries if cap is not None and isinstance(value, Mapping) else ():
                name = entry.name.removeprefix(REQUESTS_PREFIX)
                self._check_known(entry.key, name, resources, "name that the cap counts")

    def _check_known(self, node: Node | None, name: str, known_names: list[str], noun: str) -> None:
        if node is not None and name not in known_names:
            hint = format_suggestion(name, known_names) or (
                f"; there is {', '.join(known_names[:5])}" if known_names else ""
            )
            self._report(node, policy_codes.UNKNOWN_VALUE, f"{quote_text(name)} is not a {noun} here{hint}")

    def _report(self, node: Node, code: str, message: str) -> None:
        self.findings.append(LintFinding.create(self._create_source(node), code, Severity.ERROR, message))


def build_scenario(file: str, document: Mapping) -> tuple[Scenario | None, list[LintFinding]]:
    """Return the scenario of a document and the problems beyond its schema; None if there is a problem."""
    builder = _ScenarioBuilder(file, document)
    scenario = builder.build()
    return scenario, builder.findings


def _list_created_namespaces(step: ScenarioStep | None) -> Iterator[str]:
    if (
        step is not None
        and isinstance(step.action, Send)
        and step.action.name == "create"
        and step.action.body["kind"] == "Namespace"
    ):
        yield str((step.action.body.get("metadata") or {}).get("name") or "")
