"""The caps whose used amounts exceed their limits, counted as `tallygate usage` does, with their top consumers."""

from collections.abc import Iterator, Sequence

from tallygate.accounting.amounts import Amounts, format_amount
from tallygate.accounting.problem import Code, Problem, Reason
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.rule_codes import NAMESPACE_OVER_CAP, OVER_SOFT_CAP
from tallygate.audit.audit_findings import AuditCoverage, AuditFinding, ObjectRef
from tallygate.gate.cap_messages import describe_scope, find_consumer_words
from tallygate.gate.counted_claims import CountedClaim, describe_uncertain
from tallygate.gate.membership import Membership
from tallygate.gate.top_consumers import (
    Consumer,
    PodOwners,
    describe_consumers,
    sum_by_namespace,
    sum_by_workload,
)
from tallygate.gate.usage_lister import UsageLister, get_ledger_key
from tallygate.policy.model import Enforcement
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

_NO_LEDGER = Ledger(Amounts())


class CapAudit:
    """An audit of the used amounts of each cap; pods and claims must be synced.

    `caps` has each group of a cap.

    A cap that is not shared is checked for each requested namespace; a shared cap is checked once for all its members.
    Devices whose amounts are not certain are remarks of the `coverage`.
    """

    def __init__(
        self, caps: Sequence[ActiveCap], usage_lister: UsageLister, pods: PodStore, coverage: AuditCoverage
    ) -> None:
        self._caps = caps
        self._coverage = coverage
        self._usage_lister = usage_lister
        self._pods = pods
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
        members = self._usage_lister.find_membership(cap, key)
        claims = self._usage_lister.list_claims(cap, key)
        used = self._count_used(cap, members, claims) if members else Amounts()
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
                f"{self._format_top_consumers(cap, key, name)}. "
                f"No further {words.rejected} until {words.end}; {words.remedy}, or raise the cap"
            )
            yield _create_finding(cap, key, name, NAMESPACE_OVER_CAP, Enforcement.DENY, message)
        for name in sorted(used.find_excess(cap.soft).keys() - hard_excess.keys()):
            message = (
                f"cap {cap.definition.name} {describe_scope(cap)} is above its soft limit: "
                f"used {format_amount(name, used[name])} {name}, "
                f"soft {format_amount(name, cap.soft[name])}{self._format_top_consumers(cap, key, name)}"
            )
            yield _create_finding(cap, key, name, OVER_SOFT_CAP, Enforcement.WARN, message)

    def _count_used(self, cap: ActiveCap, members: Membership, claims: Sequence[CountedClaim]) -> Amounts:
        used = self._pods.compute_usage(cap, members.names).used
        return sum((claim.counted for claim in claims), used)

    def _format_top_consumers(self, cap: ActiveCap, key: LedgerKey, name: str) -> str:
        """Return the top consumers of a resource as text, empty if the cap does not show them."""
        consumers = self._list_top_consumers(cap, key, name) if cap.definition.shows_top_consumers else ()
        return f"; top consumers: {describe_consumers(name, consumers)}" if consumers else ""

    def _list_top_consumers(self, cap: ActiveCap, key: LedgerKey, name: str) -> tuple[Consumer, ...]:
        usage_groups, claims = self._usage_lister.list_groups(cap, key), self._usage_lister.list_claims(cap, key)
        if cap.definition.shared:
            return sum_by_namespace(usage_groups, _NO_LEDGER, claims).list_top(name)
        list_names = self._usage_lister.list_pod_names
        return sum_by_workload(usage_groups, _NO_LEDGER, self._owners, list_names, claims).list_top(name)


def _create_finding(  # noqa: PLR0913, PLR0917  # the parts of one finding
    active_cap: ActiveCap, key: LedgerKey, name: str, code: Code, enforcement: Enforcement, message: str
) -> AuditFinding:
    cap_name = active_cap.definition.name
    problem = Problem("", code.number, Reason.FORBIDDEN, message, value=name, rule=cap_name, policy_kind="cap")
    subject = (
        ObjectRef("v1", "Namespace", "", key.namespace)
        if key.namespace
        else ObjectRef("", "NamespaceCap", "", cap_name)
    )
    return AuditFinding(subject, enforcement, problem, key.namespace)
