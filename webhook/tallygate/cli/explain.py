"""The command `tallygate explain`: the meaning of a code, or the calculation of a pod's effective request.

`tallygate explain pod` explains the pods of a file and the pod templates of its workloads: requests, limits, the charge
of a ResourceQuota, and the terms of each sum. The claims for devices that templates of the file make for a pod are
charged by a ResourceQuota too. A pod that is not stored yet has the values that built-in admission and implied requests
give it, as in `tallygate check`.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec
from click.shell_completion import CompletionItem
from rich.console import Group, RenderableType
from rich.console import Group as Lines
from rich.text import Text

from tallygate.accounting.amounts import Amounts, format_amount, is_milli
from tallygate.accounting.names import DEVICES_SUFFIX
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.accounting.pod_requests import (
    EffectiveRequest,
    RequestTerm,
    compute_pod_limits,
    compute_pod_requests,
    explain_request,
)
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.resource_quota import compute_claim_quota_charge, compute_quota_charge
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.implied_requests import ImpliedIndex, ImpliedRequests, describe_amount
from tallygate.admission.kinds import ReviewTargets, list_review_targets
from tallygate.admission.pod_view import PodView, ReplicaCount
from tallygate.answers import code_catalog, columns
from tallygate.answers.code_catalog import Code
from tallygate.answers.columns import escape_control
from tallygate.answers.created_pods import describe_limit_ranger
from tallygate.answers.version_notes import list_version_notes
from tallygate.cli.framework import EXIT_FINDINGS, Command, UsageError, data_option
from tallygate.cli.output import tables
from tallygate.cli.output.tables import create_table
from tallygate.cli.pod_charge import ExplainedAmount, explain_charge
from tallygate.cli.progress import StderrProgress
from tallygate.cli.sources.options import combine_files, load_usable_policies, snapshot_option
from tallygate.cli.sources.snapshot_file import read_snapshot
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import LIMIT_RANGES
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError
from tallygate.manifests.applied_objects import list_applied_objects
from tallygate.manifests.kind_manifests import find_defined_targets, report_unread_kinds
from tallygate.manifests.manifest_files import load_manifests
from tallygate.manifests.manifest_objects import Manifest
from tallygate.manifests.typed_objects import parse_object
from tallygate.objects.core import Pod, PodSpec
from tallygate.policy.model import PolicySet
from tallygate.review.applied_workload import ForecastPods, ForecastWorkload
from tallygate.review.claim_forecast import find_pod_claims
from tallygate.review.workload_forecast import describe_unknown_defaults

_POD = "pod"
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class PodCalculation:
    """The calculation of one pod: `title` is its object, `location` its file position, `field` the path of its spec.

    `claims` is the charge of a ResourceQuota for the claims that templates make for the pod; `notes` say what it lacks.
    `caps` are the amounts under the names of caps, each with its cap.
    """

    title: str
    location: str
    field: str
    requests: EffectiveRequest
    limits: EffectiveRequest
    quota: Mapping[str, Quantity]
    claims: Mapping[str, int]
    notes: tuple[str, ...] = ()
    caps: tuple[tuple[str, ExplainedAmount], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values; amounts are milli-cpu for cpu and whole units otherwise."""
        return {
            "object": self.title,
            "place": self.location,
            "field": self.field,
            "requests": _resources_to_dict(self.requests),
            "limits": _resources_to_dict(self.limits),
            "quota": {key: str(quantity) for key, quantity in sorted(self.quota.items())},
            "claimsQuota": {key: str(amount) for key, amount in sorted(self.claims.items())},
            "caps": [
                {"cap": cap, "name": charged.name, "amount": charged.amount, "how": charged.calculation}
                for cap, charged in self.caps
            ],
        }


@dataclass(frozen=True, slots=True)
class _Sources:
    """The sources of amounts: the cluster to which manifests are applied, the caps, and the implied requests."""

    state: ClusterState
    caps: CapIndex
    implied: ImpliedIndex

    def find_implied(self, pod: Pod, namespace: str) -> ImpliedRequests:
        """Return what a pod of a namespace gets without writing it; a stored pod has the values of admission."""
        implied = self.implied.select(namespace, self.state.namespaces.labels(namespace))
        return implied if _is_stored(pod) else implied.with_defaults(self.state.find_pod_defaults(namespace))

    def find_caps(self, namespace: str) -> list[ActiveCap]:
        """Return the caps of a namespace, and those that select it by unknown labels."""
        matching = self.caps.find_matching(namespace, self.state.namespaces.labels(namespace))
        keys = {cap.key for cap in matching.caps}
        return [cap for cap in self.caps.list_caps() if cap.key in keys or cap.definition.name in matching.unknown]

    def charge_claims(self, pod: Pod, namespace: str) -> tuple[Amounts, tuple[str, ...]]:
        """Return the charge of a ResourceQuota for the claims of a pod, and notes on what it lacks."""
        claims = find_pod_claims(pod, namespace, self.state.claim_templates)
        notes = [f"the claims of templates are not in the sum: {claims.unknown}"] if claims.unknown else []
        keys = {key for claim in claims.claims for key in compute_claim_quota_charge(claim, {})}
        classes = {key.removesuffix(DEVICES_SUFFIX) for key in keys if key.endswith(DEVICES_SUFFIX)}
        known = self.state.device_classes.get_resources_by_class()
        unknown = sorted(classes - known.keys())
        notes += [f"DeviceClass {name} is not in the files: its extended resource is unknown" for name in unknown]
        resources_by_class = dict.fromkeys(unknown, "") | dict(known)
        charges = (compute_claim_quota_charge(claim, resources_by_class) for claim in claims.claims)
        return sum(charges, Amounts()), tuple(notes)


def _is_stored(pod: Pod) -> bool:
    return pod.metadata is not None and bool(pod.metadata.uid)


def calculate_pod(title: str, location: str, view: PodView, namespace: str, sources: _Sources) -> PodCalculation:
    """Calculate requests, limits, quota charge and caps of a pod or template, and the quota charge of its claims.

    The pod has the values that built-in admission gives it, and then the requests that are implied for it.

    Raises:
        QuantityError: if a quantity is invalid.
    """
    implied = sources.find_implied(view.pod, namespace)
    admitted, pod = implied.defaults.complete(view.pod), implied.complete(view.pod)
    spec, caps = pod.spec or PodSpec(), sources.find_caps(namespace)
    claims, notes = sources.charge_claims(pod, namespace)
    notes += tuple(_describe_admission(view.pod, admitted, implied.defaults))
    notes += tuple(f"{describe_amount(request)} is implied" for request in implied.find_missing(admitted))
    notes += implied.describe_unknown(namespace)
    workload = ForecastWorkload(
        (ForecastPods(msgspec.structs.replace(view, pod=pod), ReplicaCount(1, "pods")),), implied.defaults
    )
    notes += tuple(describe_unknown_defaults(workload, caps, ActiveCap.compute_charge))
    return PodCalculation(
        title,
        location,
        view.locate("spec"),
        compute_pod_requests(spec),
        compute_pod_limits(spec),
        compute_quota_charge(pod, None, sources.state.pod_defaults.version),
        claims,
        notes,
        tuple((cap.definition.name, amount) for cap in caps for amount in explain_charge(cap, pod)),
    )


def _describe_admission(written: Pod, admitted: Pod, defaults: PodDefaults) -> Iterator[str]:
    """Yield a note on each value that built-in admission gives a pod, and on each that is not known."""
    before, after = written.spec or PodSpec(), admitted.spec or PodSpec()
    if set_by := describe_limit_ranger(before, after):
        yield set_by
    if after.overhead and not before.overhead:
        yield f"RuntimeClass {after.runtime_class_name} gives the overhead"
    if name := defaults.find_unknown_class(written):
        yield f"the overhead of RuntimeClass {name} is not known, and is not in the sum"
    if after.priority_class_name and not before.priority_class_name:
        yield f"the priority class is {after.priority_class_name} by default"
    if defaults.is_ambiguous:
        yield "LimitRanges of its namespace differ in a default: the first that is listed decides; none is in the sum"


def render_calculation(calculation: PodCalculation) -> RenderableType:
    return Group(
        Text.assemble(
            (escape_control(calculation.title), "bold"),
            f"  {escape_control(calculation.location)}  {calculation.field}",
        ),
        _render_table("REQUEST", calculation.requests),
        _render_table("LIMIT", calculation.limits),
        _render_quota(calculation),
        *_render_caps(calculation),
        Text(),
    )


def _render_quota(calculation: PodCalculation) -> RenderableType:
    """Render the charges of a ResourceQuota; those for claims are a column if there are any."""
    quota, claims = calculation.quota, calculation.claims
    if not claims:
        return create_table(("QUOTA KEY", "CHARGE"), [(key, str(quantity)) for key, quantity in sorted(quota.items())])
    rows = [(key, str(quota.get(key, "-")), str(claims.get(key, "-"))) for key in sorted(quota.keys() | claims.keys())]
    return create_table(("QUOTA KEY", "CHARGE", "OF CLAIMS"), rows)


def _render_caps(calculation: PodCalculation) -> Iterator[RenderableType]:
    rows = [
        (cap, charged.name, format_amount(charged.name, charged.amount), charged.calculation)
        for cap, charged in calculation.caps
    ]
    if rows:
        yield create_table(("CAP", "NAME", "AMOUNT", "HOW"), rows)


def _render_table(title: str, effective: EffectiveRequest) -> RenderableType:
    resources = sorted(effective.quantities)
    if not resources:
        return Text(f"no {title.lower()}")
    return create_table((title, "QUANTITY", "AMOUNT", "HOW"), [_create_row(name, effective) for name in resources])


def _create_row(name: str, effective: EffectiveRequest) -> tuple[str, str, str, str]:
    calculation = explain_request(effective, name).removeprefix(f"{name} = ")
    return name, str(effective.quantities[name]), _format_amount(name, effective), calculation


def _format_amount(name: str, effective: EffectiveRequest) -> str:
    return f"{effective.amounts[name]}{' milli-cpu' if is_milli(name) else ''}"


def _resources_to_dict(effective: EffectiveRequest) -> dict[str, Any]:
    return {
        name: {
            "quantity": quantity.text,
            "amount": effective.amounts[name],
            "unit": "milli" if is_milli(name) else "whole",
            "how": explain_request(effective, name),
            "terms": [_term_to_dict(term) for term in effective.list_terms(name)],
        }
        for name, quantity in sorted(effective.quantities.items())
    }


def _term_to_dict(term: RequestTerm) -> dict[str, Any]:
    return {
        "who": term.container,
        "role": term.role.value,
        "quantity": term.quantity.text,
        "beneath": term.sidecars.text,
        "counts": term.is_counted,
    }


@dataclass(frozen=True, slots=True)
class ExplainedPods:
    """The calculations, and the number of objects with pods whose kind is not read.

    Without `knows_limit_ranges` the cluster may have LimitRanges that give the pods further values. `version_notes` are
    the reasons why the amounts of quotas may not be those of the cluster.
    """

    calculations: Sequence[PodCalculation]
    unread_count: int
    knows_limit_ranges: bool
    version_notes: Sequence[str] = ()


def calculate_pods(
    filenames: tuple[str, ...], stdin: BinaryIO, policies: PolicySet, snapshot: Path | None = None
) -> ExplainedPods:
    """Calculate every pod and template of files, folders or stdin, under the caps of these policies.

    The files are applied to the cluster of the snapshot, if there is one. Objects with pods whose kind is not read are
    reported on stderr.

    Raises:
        UsageError: if a file cannot be read, or contains no pod.
        SnapshotError: if the snapshot cannot be read.
    """
    loaded = load_manifests(filenames, stdin, DEFAULT_LIMITS, lambda names: names)
    if loaded.findings:
        raise UsageError("\n".join(f"{finding.location}: {finding.message}" for finding in loaded.findings))
    manifests = loaded.manifests
    state = read_snapshot(snapshot, list_applied_objects(manifests, _DEFAULT_NAMESPACE, DEFAULT_LIMITS))
    sources = _Sources(state, state.index_caps(policies, None), ImpliedIndex(policies))
    targets = {**list_review_targets(policies), **find_defined_targets(manifests)}
    unread_count = len(report_unread_kinds(manifests, "", targets, StderrProgress().report))
    found = [charge for manifest in manifests for charge in _calculate_manifest(manifest, sources, targets)]
    if not found:
        raise UsageError(f"{', '.join(filenames)}: it contains neither a pod nor a pod template of a kind that is read")
    knows_limit_ranges = state.knows(LIMIT_RANGES) or all(is_stored for _, is_stored in found)
    version_notes = tuple(list_version_notes(state.pod_defaults.version, state.git_version))
    return ExplainedPods([calculation for calculation, _ in found], unread_count, knows_limit_ranges, version_notes)


def _calculate_manifest(
    manifest: Manifest, sources: _Sources, targets: ReviewTargets
) -> Iterator[tuple[PodCalculation, bool]]:
    """Yield the calculation of each pod and template of an object, and whether it is a stored pod."""
    location = f"{manifest.file}:{manifest.node.position.line}:{manifest.node.position.column}"
    try:
        typed = parse_object(manifest, "", DEFAULT_LIMITS, targets)
        if typed is None:
            return
        namespace = typed.subject.namespace or _DEFAULT_NAMESPACE
        for view in typed.views:
            yield calculate_pod(str(typed.subject), location, view, namespace, sources), _is_stored(view.pod)
    except DocumentError as fault:
        raise UsageError(f"{manifest.file}:{fault.position.line}:{fault.position.column}: {fault.message}") from fault
    except QuantityError as error:
        raise UsageError(f"{location}: {error}; `tallygate check {manifest.file}` says where") from error


def _complete_subject(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the codes with this prefix, each with its summary."""
    codes = [CompletionItem(code.number, help=code.summary) for code in code_catalog.list_codes()]
    return [item for item in (CompletionItem(_POD), *codes) if str(item.value).startswith(incomplete)]


@click.command(
    cls=Command,
    examples=(
        ("tallygate explain", "every code in one line"),
        ("tallygate explain TG101", "one code: what, why, what fails, what passes; `not-whole` names it too"),
        ("tallygate explain pod -f pod.yaml", "the calculation of the request of a pod, or of a Deployment's pods"),
        ("tallygate explain pod -f pod.yaml --policies policies/", "the amounts under caps too"),
        ("tallygate explain pod -f pod.yaml --snapshot now.json", "... as the pod is created in that cluster"),
        ("helm template . | tallygate explain pod -f - -o json", "the same of rendered manifests, for a program"),
    ),
)
@click.argument("subject", metavar="[CODE|pod]", required=False, shell_complete=_complete_subject)
@click.argument("paths", metavar="[FILE|FOLDER|-]...", nargs=-1, type=click.Path(allow_dash=True))
@click.option(
    "-f",
    "--filename",
    "filenames",
    metavar="FILE",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="With `pod`: the manifests to explain, a folder of them, or - for stdin. The same as an argument after `pod`; "
    "may be given several times.",
)
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="With `pod`: a policy file, or a folder of them, for the amounts under its caps; may be given several times.",
)
@snapshot_option(
    "With `pod`: the cluster to which the files are applied, for its LimitRanges, RuntimeClasses, classes of devices, "
    "templates of claims and labels of namespaces: a file of `tallygate snapshot`."
)
@data_option
@click.pass_context
def explain(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    subject: str | None,
    paths: tuple[str, ...],
    *,
    filenames: tuple[str, ...],
    policies: tuple[Path, ...],
    snapshot: Path | None,
    output: str,
) -> None:
    """Explain a code of tallygate, or the calculation of a pod's effective request.

    The effective request is the maximum while the pod exists: containers and sidecars are added, an init container
    counts together with the sidecars before it, and overhead is added. `explain pod` shows each term, and the charge of
    a ResourceQuota for the pod and for the claims that templates in the files make for it. With --policies it also
    shows the amounts of the pod under the caps of its namespace, and counts its implied requests. A WorkloadKind in the
    files or policies defines where the pods are in objects of its kind.

    A pod counts as the API server creates it: with the defaults of LimitRanges and the overhead of its RuntimeClass,
    from the files or a snapshot. Notes on stderr name these values and the unknown ones.

    Exit codes: 0 explained, 1 an object with pods is of a kind that is not read, 2 a usage error, or a file cannot be
    read.
    """
    if subject == _POD:
        if not (paths or filenames):
            raise UsageError("which pod? name a file: `tallygate explain pod -f FILE`, or -f - for stdin")
        files = combine_files(paths, filenames, snapshot)
        usable = load_usable_policies(policies) if policies else PolicySet()
        explained = calculate_pods(files, sys.stdin.buffer, usable, snapshot)
        _print_pods(explained, output)
        ctx.exit(EXIT_FINDINGS if explained.unread_count else 0)
    for option, value in (
        (" ".join(paths), paths),
        ("-f", filenames),
        ("--policies", policies),
        ("--snapshot", snapshot),
    ):
        if value:
            raise UsageError(f"{option} belongs to `tallygate explain pod -f FILE`")
    if subject is None:
        tables.print_records(_CODES, "Code", code_catalog.list_codes(), output)
    else:
        codes = code_catalog.find_codes(subject)
        tables.print_records(
            _CODES, "Code", codes, output, lambda: tables.print_content(Lines(*map(_render_code, codes)))
        )


def _render_code(code: Code) -> Lines:
    return Lines(
        Text(f"{code.number} {code.slug}", "bold"),
        Text(code.summary),
        Text(f"\n{code.explanation}\n"),
        Text(f"This gets {code.number}:", "red"),
        Text(_indent(code.invalid_example)),
        Text("This does not:", "green"),
        Text(_indent(code.valid_example)),
    )


_CODES = columns.Columns[Code](
    columns.Column("CODE", "code", lambda code: code.number),
    columns.Column("NAME", "name", lambda code: code.slug),
    columns.Column("WHAT", "what", lambda code: code.summary),
    columns.Column("", "why", lambda code: code.explanation),
    columns.Column("", "fails", lambda code: code.invalid_example),
    columns.Column("", "passes", lambda code: code.valid_example),
)


def _indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _print_pods(explained: ExplainedPods, output: str) -> None:
    """Print the calculations, and on stderr what these count that is not written, and what they may lack."""
    if not explained.knows_limit_ranges:
        click.echo(
            "note: the LimitRanges of the cluster are not known: what they give to containers is not in the sums; "
            "--snapshot has them",
            err=True,
        )
    for note in explained.version_notes:
        click.echo(escape_control(f"note: {note}"), err=True)
    for calculation in explained.calculations:
        for note in calculation.notes:
            click.echo(escape_control(f"note: {calculation.location}: {calculation.title}: {note}"), err=True)
    calculations = explained.calculations
    items = (calculation.to_dict() for calculation in calculations)
    tables.print_list(
        "PodRequest", items, output, lambda: tables.print_content(Group(*map(render_calculation, calculations)))
    )
