"""One audit: it evaluates the listed objects, then the pods of the store, then the caps.

The caps whose used amounts exceed their limits, counted as `tallygate usage` does, with their top consumers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.pod_defaults import UNKNOWN_POD_DEFAULTS, PodDefaults
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.cap_sources import NO_CAP_SOURCES, CapSources
from tallygate.admission.kinds import BUILT_IN_TARGETS, REVIEW_TARGETS, ReviewTargets
from tallygate.admission.rule_codes import NAMESPACE_OVER_CAP, OVER_SOFT_CAP
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.audit import listing
from tallygate.audit.audit_evaluation import POD_BATCH_SIZE, AuditEvaluator
from tallygate.audit.audit_findings import AuditCoverage, AuditFinding, AuditFindings, ObjectRef
from tallygate.cluster.consumer_sums import PodOwners, describe_consumers, sum_consumers
from tallygate.cluster.consumers import ConsumerAmounts, CountedClaim, describe_uncertain, sum_used
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.objects.meta import PartialObjectMetadata
from tallygate.policy.limit_annotations import LimitRecords, find_invalid, find_unadmitted, read_overrides
from tallygate.policy.model import Enforcement, PolicySet
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.advertised_devices import DeviceLister
from tallygate.review.applied_workload import DaemonPodCounter
from tallygate.review.cap_messages import describe_scope, find_consumer_words
from tallygate.review.cluster_snapshot import SnapshotProvider
from tallygate.review.schedulability import check_schedulability
from tallygate.review.view import ClusterView
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.named_stores import NamespaceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ports import LedgerKey

_PARTIAL_DECODER = msgspec.json.Decoder(PartialObjectMetadata)

ListedObject = tuple[str, str, msgspec.Raw]
"""API group, kind and JSON."""


Throttle = Callable[[int], None]
"""Takes the number of objects done since the last call; may block to slow the audit, and raise to end it."""


@dataclass(frozen=True, slots=True)
class AuditInput:
    """The stores of a cluster: its pods and namespaces, which are synced, and its nodes if they are known.

    `now` is the time by which overrides of limits end. `snapshots` are without the pods on nodes: a stored pod has its
    node or is pending, which `tallygate predict` explains. `find_cap_sources` returns what caps depend on. It
    `has_slices` unless devices may not be listed. `devices` has the published devices, `limit_records` the annotations
    that gates admitted, None if they are unknown. `find_pod_defaults` returns what built-in admission gives new pods of
    a namespace. `count_daemon_pods` counts the pods of DaemonSets by the nodes, None if these are not known.
    """

    pods: PodStore
    namespaces: NamespaceStore
    usage_lister: UsageLister
    now: datetime
    snapshots: SnapshotProvider | None = None
    find_cap_sources: Callable[[PolicySet, datetime], CapSources] = lambda _policies, _now: NO_CAP_SOURCES
    has_slices: bool = True
    devices: DeviceLister | None = None
    limit_records: LimitRecords | None = None
    find_pod_defaults: Callable[[str], PodDefaults] = lambda _: UNKNOWN_POD_DEFAULTS
    count_daemon_pods: DaemonPodCounter | None = None


@dataclass(frozen=True, slots=True)
class AuditScope:
    """The audited namespaces, or the whole cluster with its nodes and shared caps (None), and the kinds.

    `excluded_namespaces` are the namespaces whose objects are not sent to the gate.
    """

    excluded_namespaces: frozenset[str]
    included_namespaces: frozenset[str] | None = None
    targets: ReviewTargets = field(default_factory=lambda: REVIEW_TARGETS)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The findings and the coverage of an audit, and the number of its namespaces."""

    findings: AuditFindings
    coverage: AuditCoverage
    namespace_count: int


class Audit:
    """An audit of one cluster by one policy set."""

    def __init__(self, policies: PolicySet, audit_input: AuditInput, scope: AuditScope, throttle: Throttle) -> None:
        self._input = audit_input
        self._scope = scope
        self._throttle = throttle
        policy_set = ActivePolicySet(policies, audit_input.now, audit_input.find_cap_sources(policies, audit_input.now))
        view = ClusterView(
            namespaces=audit_input.namespaces,
            usage_lister=audit_input.usage_lister,
            evaluate_node_rules=None
            if audit_input.snapshots is None or not policy_set.rules.has_node_rules
            else partial(check_schedulability, snapshots=audit_input.snapshots, devices=audit_input.devices),
            find_pod_defaults=audit_input.find_pod_defaults,
            count_daemon_pods=audit_input.count_daemon_pods,
        )
        self._evaluator = AuditEvaluator(policy_set, view, scope.excluded_namespaces)

    def run(self, objects: Iterable[ListedObject]) -> AuditResult:
        """Evaluate the objects, which come in the order of `list_kinds_in_order`, then the pods and the caps.

        Raises:
            AuditError: if the objects cannot be listed.
            NotListedError: if the pods are not synced.
        """
        for group, kind, item in objects:
            self._evaluator.evaluate_object(group, kind, item)
            self._throttle(1)
        names = sorted(self._list_namespaces())
        for name in names:
            # Sorted, so that successive audits name the same pod of an owner.
            pods = sorted(self._input.pods.list_all(name), key=_get_name)
            self._evaluator.evaluate_pods(name, pods, self._throttle)
            self._throttle(len(pods) % POD_BATCH_SIZE)
        self._audit_caps(frozenset(names))
        return AuditResult(self._evaluator.findings, self._evaluator.coverage, len(names))

    def _list_namespaces(self) -> Iterable[str]:
        """Return the audited namespaces, with the excluded ones among them."""
        names = (record.name for record in self._input.namespaces.list_records())
        return names if self._scope.included_namespaces is None else self._scope.included_namespaces

    def _audit_caps(self, names: frozenset[str]) -> None:
        records = self._input.namespaces.list_records()
        caps = self._evaluator.caps.list_ledger_caps((record.name, record.labels) for record in records)
        cap_audit = CapAudit(caps, self._input.usage_lister, self._evaluator.coverage)
        includes_shared = self._scope.included_namespaces is None
        for finding in cap_audit.find_excess(names - self._scope.excluded_namespaces, includes_shared=includes_shared):
            self._evaluator.findings.add(finding)
            self._throttle(0)
        uncounted = sorted({name for cap in self._evaluator.caps.list_caps() for name in cap.device_meters})
        if uncounted and not self._input.has_slices:
            self._evaluator.coverage.add_remark(
                f"allocated devices were not counted under {', '.join(uncounted)}: the ResourceSlices are not listed"
            )
        self._audit_limit_annotations(names)
        skipped = [cap.definition.name for cap in self._evaluator.caps.list_caps() if cap.definition.shared]
        if not includes_shared and skipped:
            self._evaluator.coverage.add_remark(
                f"shared caps are added up over all their namespaces, and were not asked: {', '.join(skipped)}"
            )

    def _audit_limit_annotations(self, names: frozenset[str]) -> None:
        """Report the annotations that set no limits, and those that no gate admitted."""
        namespaces, records = self._input.namespaces, self._input.limit_records
        annotations = {
            name: annotation for name, annotation in namespaces.get_limit_annotations().items() if name in names
        }
        caps = [cap.definition for cap in self._evaluator.caps.list_caps()]
        add_remark = self._evaluator.coverage.add_remark
        for cap in caps:
            for invalid in find_invalid(cap, annotations):
                add_remark(str(invalid))
        if records is None:
            if any(read_overrides(cap, annotations) for cap in caps):
                add_remark("it is unknown whether a gate admitted the annotations that set limits: no records are read")
            return
        uids = {record.name: record.uid for record in namespaces.list_records()}
        for cap in caps:
            for unadmitted in find_unadmitted(cap, annotations, uids, records, self._input.now):
                add_remark(str(unadmitted))


def _get_name(pod: StoredConsumer) -> str:
    return pod.name


def list_objects(
    pages: listing.PageReader, scope: AuditScope, add_remark: Callable[[str], object]
) -> Iterator[ListedObject]:
    """Yield the stored objects of the evaluated kinds except pods, owners first.

    A kind of another project that cannot be listed is a remark: it may be newer than the rights of the account. So is
    one that is served in other versions than those that are read.

    Raises:
        AuditError: if a kind of Kubernetes cannot be listed.
    """
    try:
        served = pages.find_served_kinds(scope.targets)
    except listing.AuditError as error:
        served = listing.ServedKinds()
        add_remark(f"{error}, so no kinds of other projects were evaluated")
    resources = served.resources
    for remark in served.unread:
        add_remark(remark)
    for key in listing.list_kinds_in_order(scope.targets):
        group, kind = key
        try:
            for path in _list_paths(key, scope, resources):
                for items in pages.list_pages(path):
                    for item in items:
                        yield group, kind, item
        except listing.ListForbiddenError:
            if key not in resources:
                raise
            name = f"{resources[key].plural}.{group}"
            add_remark(f"{name} may not be listed by this account, so {kind} was not evaluated: grant list on {name}")


def _list_paths(
    key: tuple[str, str], scope: AuditScope, resources: Mapping[tuple[str, str], WorkloadResource]
) -> list[str]:
    """Return the paths of the lists of a kind; `resources` are those of other projects that are served."""
    resource = resources.get(key)
    if resource is None and key not in BUILT_IN_TARGETS:
        return []
    version, is_namespaced = (
        ("v1", key != listing.NODE) if resource is None else (resource.version, resource.is_namespaced)
    )
    if scope.included_namespaces is None:
        return [listing.create_list_path(key, version=version, targets=scope.targets)]
    names = sorted(scope.included_namespaces) if is_namespaced else ()
    return [listing.create_list_path(key, name, version, scope.targets) for name in names]


def sort_objects(objects: Iterable[tuple[str, msgspec.Raw]], targets: ReviewTargets) -> Iterator[ListedObject]:
    """Yield the objects of a file, owners first, without those of other kinds.

    An object without `apiVersion`, as in a list of one kind, is of the most common group with this kind.
    """
    groups = listing.index_groups(targets)
    by_kind: dict[tuple[str, str], list[msgspec.Raw]] = {}
    for kind, item in objects:
        api_version = _PARTIAL_DECODER.decode(item).api_version
        group = groups.get(kind, "") if api_version is None else api_version.rpartition("/")[0]
        by_kind.setdefault((group, kind), []).append(item)
    for group, kind in listing.list_kinds_in_order(targets):
        for item in by_kind.get((group, kind), ()):
            yield group, kind, item


class CapAudit:
    """An audit of the used amounts of each cap; pods and claims must be synced.

    `caps` has each group of a cap.

    A cap that is not shared is checked for each requested namespace; a shared cap is checked once for all its members.
    Devices whose amounts are not certain are remarks of the `coverage`.
    """

    def __init__(self, caps: Sequence[ActiveCap], usage_lister: UsageLister, coverage: AuditCoverage) -> None:
        self._caps = caps
        self._coverage = coverage
        self._usage_lister = usage_lister
        self._owners = PodOwners()

    def find_excess(self, namespaces: frozenset[str], *, includes_shared: bool) -> Iterator[AuditFinding]:
        """Yield the exceeded limits cap by cap, in the given namespaces, and of shared caps if `includes_shared`.

        Raises:
            NotListedError: if the pods are not synced.
        """
        for cap in self._caps:
            shared_key = LedgerKey(cap.key, "")
            if cap.definition.shared:
                if includes_shared:
                    yield from self._check_ledger(cap, shared_key)
                continue
            members = self._usage_lister.find_membership(cap, shared_key)
            for name in sorted(members.names & namespaces if members else ()):
                yield from self._check_ledger(cap.choose_limits(name), get_ledger_key(cap, name))

    def _check_ledger(self, cap: ActiveCap, key: LedgerKey) -> Iterator[AuditFinding]:
        consumers = list(self._usage_lister.list_consumers(cap, key))
        used = sum_used(consumers).used
        claims = [consumer.origin for consumer in consumers if isinstance(consumer.origin, CountedClaim)]
        scope = f" in namespace {key.namespace}" if key.namespace else f" for {cap.group}" if cap.group else ""
        for text in describe_uncertain(cap, claims):
            self._coverage.add_remark(f"cap {cap.definition.name}{scope}: {text}")
        for unseen in self._usage_lister.list_unseen_classes(cap, key):
            self._coverage.add_remark(f"cap {cap.definition.name}{scope}: {unseen}")
        hard_excess = used.find_excess(cap.hard)
        for name in sorted(hard_excess):
            words = find_consumer_words(cap, name)
            message = (
                f"cap {cap.definition.name} {describe_scope(cap)} exceeded: "
                f"used {format_amount(name, used[name])} {name}, hard {cap.limits.describe(name)}, "
                f"{format_amount(name, hard_excess[name])} too much"
                f"{self._format_top_consumers(cap, consumers, name)}. "
                f"No further {words.rejected} until {words.end}; {words.remedy}, or raise the cap"
            )
            yield _create_finding(cap, key, name, NAMESPACE_OVER_CAP, Enforcement.DENY, message)
        for name in sorted(used.find_excess(cap.soft).keys() - hard_excess.keys()):
            message = (
                f"cap {cap.definition.name} {describe_scope(cap)} is above its soft limit: "
                f"used {format_amount(name, used[name])} {name}, "
                f"soft {format_amount(name, cap.soft[name])}{self._format_top_consumers(cap, consumers, name)}"
            )
            yield _create_finding(cap, key, name, OVER_SOFT_CAP, Enforcement.WARN, message)

    def _format_top_consumers(self, cap: ActiveCap, consumers: Sequence[ConsumerAmounts], name: str) -> str:
        """Return the top consumers of a resource as text, empty if the cap does not show them."""
        if not cap.definition.shows_top_consumers:
            return ""
        top = sum_consumers(cap, consumers, self._owners, self._usage_lister.list_pod_names).list_top(name)
        return f"; top consumers: {describe_consumers(name, top)}" if top else ""


def _create_finding(  # noqa: PLR0913, PLR0917  # the parts of one finding
    active_cap: ActiveCap, key: LedgerKey, name: str, code: str, enforcement: Enforcement, message: str
) -> AuditFinding:
    cap_name = active_cap.definition.name
    problem = Problem("", code, Reason.FORBIDDEN, message, value=name, rule=cap_name, policy_kind="cap")
    subject = (
        ObjectRef("v1", "Namespace", "", key.namespace)
        if key.namespace
        else ObjectRef("", "NamespaceCap", "", cap_name)
    )
    return AuditFinding(subject, enforcement, problem, key.namespace)
