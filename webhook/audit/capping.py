"""Caps that hold more than they allow: the sum as `tallygate usage` counts it, and who holds most."""

from collections.abc import Iterator

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.problem import Code, Problem, Reason
from webhook.admission.capping import CapIndex, Counted
from webhook.admission.codes import NAMESPACE_OVER_CAP, OVER_SOFT_CAP
from webhook.audit.finding import Finding, Subject
from webhook.gate.top_consumers import Consumer, PodOwners, describe_consumers, sum_by_namespace, sum_by_workload
from webhook.gate.usage_lister import Membership, UsageLister
from webhook.policy.model import Enforcement
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey
from webhook.state.watch.view import PodView

_NO_LEDGER = Ledger(Amounts())


class Capping:
    """Looks at the pods under each cap; all of them must have been listed.

    Under a cap of its own each namespace is looked at that `wants` says yes to; a shared one is about all of its.
    """

    def __init__(self, caps: CapIndex, sight: UsageLister, pods: PodView) -> None:
        self._caps = caps
        self._sight = sight
        self._pods = pods
        self._owners = PodOwners()

    def over(self, namespaces: frozenset[str], *, shared: bool) -> Iterator[Finding]:
        """What is over, cap by cap, in these namespaces, and where `shared` says so under shared caps.

        Raises:
            NotListedError: the pods are not known yet.
        """
        for counted in self._caps.all():
            every = LedgerKey(counted.key, "")
            if counted.cap.shared:
                if shared:
                    yield from self._of(counted, every)
                continue
            members = self._sight.find_membership(counted, every)
            for name in sorted(members.names & namespaces if members else ()):
                yield from self._of(counted, LedgerKey(counted.key, name))

    def _of(self, counted: Counted, key: LedgerKey) -> Iterator[Finding]:
        members = self._sight.find_membership(counted, key)
        held = self._held(counted, members) if members else Amounts()
        hard = held.find_excess(counted.hard)
        for name in sorted(hard):
            message = (
                f"{_cap(counted)} allows {format_amount(name, counted.hard[name])} {name}, and its pods hold "
                f"{format_amount(name, held[name])}, {format_amount(name, hard[name])} too "
                f"much{self._most(counted, key, name)}: "
                f"nothing more is let in until pods end; end some, or raise the cap"
            )
            yield _finding(counted, key, name, NAMESPACE_OVER_CAP, Enforcement.DENY, message)
        for name in sorted(held.find_excess(counted.soft).keys() - hard.keys()):
            message = (
                f"{_cap(counted)} holds {format_amount(name, held[name])} {name}, above its soft "
                f"{format_amount(name, counted.soft[name])}{self._most(counted, key, name)}"
            )
            yield _finding(counted, key, name, OVER_SOFT_CAP, Enforcement.WARN, message)

    def _held(self, counted: Counted, members: Membership) -> Amounts:
        return self._pods.count(counted, members.names).tally

    def _most(self, counted: Counted, key: LedgerKey, name: str) -> str:
        """Who holds most of it, where the cap's author lets that be told."""
        holders = self._holders(counted, key, name) if counted.cap.names_holders else ()
        return f"; held most by {describe_consumers(name, holders)}" if holders else ""

    def _holders(self, counted: Counted, key: LedgerKey, name: str) -> tuple[Consumer, ...]:
        heaps = self._sight.list_groups(counted, key)
        if counted.cap.shared:
            return sum_by_namespace(heaps, _NO_LEDGER).list_top(name)
        return sum_by_workload(heaps, _NO_LEDGER, self._owners, self._sight.list_pod_names).list_top(name)


def _cap(counted: Counted) -> str:
    return f"cap {counted.cap.name} {'shared by its namespaces' if counted.cap.shared else 'of this namespace'}"


def _finding(  # noqa: PLR0913, PLR0917  # the parts of one finding
    counted: Counted, key: LedgerKey, name: str, code: Code, enforcement: Enforcement, message: str
) -> Finding:
    cap = counted.cap.name
    problem = Problem("", code.number, Reason.FORBIDDEN, message, value=name, rule=cap, policy_kind="cap")
    subject = Subject("v1", "Namespace", "", key.namespace) if key.namespace else Subject("", "NamespaceCap", "", cap)
    return Finding(subject, enforcement, problem, key.namespace)
