"""The gate itself: bytes of a review in, bytes of an answer out."""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge, has_ended
from webhook.accounting.fingerprint import Fingerprint
from webhook.accounting.problem import Problem
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.capping import CapIndex, Counted
from webhook.admission.change import Change, Phase
from webhook.admission.decide import judge_read
from webhook.admission.reading import Reading, decoded
from webhook.admission.review import Asked, ReviewError, decode
from webhook.admission.verdict import ALLOWED
from webhook.admission.workloads import target
from webhook.errors import TallygateError
from webhook.gate.answering import Answer, InForce, Sitting, busy, by_rules, granted, refused, told
from webhook.gate.arithmetic import no_limit, refusals
from webhook.gate.charging import Charging
from webhook.gate.foresight import WORKLOADS, changed, foresee
from webhook.gate.moving import is_move, moved
from webhook.gate.placing import Placing, judge_placing
from webhook.gate.promising import Asked as AskedOfCap
from webhook.gate.promising import Look, Who
from webhook.gate.quotas import Quotas, over_quotas
from webhook.gate.scaling import Workloads, is_scale, scaled
from webhook.gate.sight import Sight
from webhook.gate.telling import Telling
from webhook.objects.core import Pod
from webhook.policy.model import Foresight, PolicySet
from webhook.policy.resolve import matches_subjects
from webhook.state.ledger import Kind, Ledger
from webhook.state.ports import BusyError, LedgerKey, Ledgers, NamespaceLister, StoreUnavailableError

_CHARGED_SUBRESOURCES = frozenset({"", "resize"})


class UndecidedError(TallygateError):
    """No decision could be reached, and that is not the user's fault: the cluster's failurePolicy decides."""


class Gate:
    """Answers reviews by the policies in force, charging caps in the validating phase.

    `policies` gives the set in force, `nonce` a text that no other attempt of any process has, `monotonic` seconds.
    `sight` shows the pods that are there, where they are watched; `telling` finds what refusals tell of them.
    `quotas` knows the ResourceQuotas of namespaces, where those are watched, `placing` nodes and the pods on them;
    `workloads` are read where one is scaled.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        policies: Callable[[], PolicySet],
        namespaces: NamespaceLister,
        ledgers: Ledgers,
        monotonic: Callable[[], float],
        nonce: Callable[[], str],
        sight: Sight | None = None,
        telling: Telling | None = None,
        quotas: Quotas | None = None,
        placing: Placing | None = None,
        workloads: Workloads | None = None,
    ) -> None:
        self._policies = policies
        self._namespaces = namespaces
        self._ledgers = ledgers
        self._sight = sight
        self._quotas = quotas
        self._placing = placing
        self._workloads = workloads
        self._telling = telling or Telling(monotonic, sight)
        self._monotonic = monotonic
        self._nonce = nonce
        self._force = self._indexed(policies())

    def admit(self, body: bytes, phase: Phase, deadline: float) -> Answer:
        """Answer a review before `deadline` (seconds of the monotonic clock).

        Raises:
            ReviewError: the body is no review that could be answered.
            UndecidedError: a cap over this pod could not be kept: its store or the namespace's labels are out of reach.
        """
        asked: Asked = decode(body)
        change, force = asked.change, self._in_force()
        labels = self._namespaces.labels(change.namespace) if force.needs_labels and change.namespace else None
        reading = Reading(change)
        sitting = Sitting(asked.uid, change, phase, force, judge_read(reading, force.rules, labels, phase))
        if phase is Phase.VALIDATING and sitting.verdict.allowed and self._placing is not None:
            said = judge_placing(change, force.rules, labels, self._placing)
            if said is not ALLOWED:
                sitting = replace(sitting, verdict=sitting.verdict.beside(said))
        if phase is Phase.VALIDATING and sitting.verdict.allowed and force.caps and _is_charged(reading):
            return self._charged(sitting, reading, labels, deadline)
        if phase is Phase.VALIDATING and sitting.verdict.allowed and change.kind in WORKLOADS:
            return self._foreseen(sitting, labels, deadline)
        if phase is Phase.VALIDATING and is_scale(change):
            return self._scaled(sitting, labels, deadline)
        if phase is Phase.VALIDATING and force.caps and is_move(change) and self._sight is not None:
            return told(sitting, moved(change, force.caps, self._sight, partial(self._kept, deadline=deadline)))
        return by_rules(sitting)

    def caps(self) -> CapIndex:
        """The caps in force."""
        return self._in_force().caps

    def _in_force(self) -> InForce:
        policies = self._policies()
        force = self._force
        if force.policies is not policies:
            force = self._force = self._indexed(policies)
        return force

    def _indexed(self, policies: PolicySet) -> InForce:
        force = InForce(policies)
        if self._sight is not None:
            self._sight.in_force([counted.key for counted in force.caps.all()])
        return force

    def _charged(self, sitting: Sitting, reading: Reading, labels: Mapping[str, str] | None, deadline: float) -> Answer:
        change = sitting.change
        caps = sitting.force.caps.over(change.namespace, labels)
        if caps.unknown:
            raise UndecidedError(
                f"cap {caps.unknown[0]} selects namespaces by label, and the labels of namespace {change.namespace} "
                "are not known here"
            )
        if not caps.caps:
            return by_rules(sitting)
        if self._sight is not None and labels is None and self._namespaces.labels(change.namespace) is None:
            # Its ledger would be taken for one that was lost, and promise nothing for a while.
            return busy(sitting, f"namespace {change.namespace} is not known here yet")
        new, old = _pods(reading)
        if old is not None and has_ended(old):
            # It holds nothing, and will not again. What a ledger promised it before counts until it is counted anew.
            return by_rules(sitting)
        asked: list[AskedOfCap] = []
        missing: list[Problem] = []
        for counted in caps.caps:
            before, after = _held(counted, old), _held(counted, new, reading.likeness(new))
            exceeds = matches_subjects(counted.cap.exceed, change.user.name, change.user.groups)
            each = AskedOfCap(counted, before.amounts, after.amounts, exceeds)
            if after.unlimited and not exceeds:
                missing += _no_limits(each, before, after)
            asked.append(each)
        if missing:
            return refused(sitting, missing)
        return self._booked(sitting, asked, _who(change, new, self._nonce()), deadline)

    def _foreseen(self, sitting: Sitting, labels: Mapping[str, str] | None, deadline: float) -> Answer:
        """What caps and quotas will say to the pods of a workload: told now, and refused now where a cap wants that."""
        quotas = (self._quotas.within(sitting.change.namespace) if self._quotas else None) or ()
        found = target(sitting.change) if sitting.force.caps or quotas else None
        asked, stored = changed(sitting.change, found) if found else (None, None)
        if asked is None:
            return by_rules(sitting)
        denied: list[Problem] = []
        foreseen: list[Problem] = []
        for counted in sitting.force.caps.over(sitting.change.namespace, labels).caps:
            if counted.cap.workloads is Foresight.IGNORE:
                continue
            key = LedgerKey(counted.key, "" if counted.cap.shared else sitting.change.namespace)
            ledger = partial(self._kept, key, deadline)
            hold = partial(_held, counted)
            before = stored.costs(hold) if stored else Amounts()
            for each in foresee(asked, counted, hold, before, ledger):
                denies = each.final and counted.cap.workloads is Foresight.DENY
                (denied if denies else foreseen).append(each.problem)
        if denied:
            return refused(sitting, denied)
        return told(sitting, [*foreseen, *(each.problem for each in over_quotas(asked, stored, quotas))])

    def _scaled(self, sitting: Sitting, labels: Mapping[str, str] | None, deadline: float) -> Answer:
        """What is said of a workload that is to have more pods, as when its own `replicas` are changed."""
        concerns = bool(sitting.force.caps) or self._quotas is not None
        change = scaled(sitting.change, self._workloads) if self._workloads is not None and concerns else None
        if change is None:
            return by_rules(sitting)
        return self._foreseen(replace(sitting, change=change), labels, deadline)

    def _kept(self, key: LedgerKey, deadline: float) -> Ledger | None:
        """The ledger; none yet is an empty one, and None is one out of reach: no reason to stop a workload."""
        try:
            found = self._ledgers.transact(key, Look(), deadline)
        except (BusyError, StoreUnavailableError):
            return None
        return found or Ledger(Amounts())

    def _booked(self, sitting: Sitting, asked: list[AskedOfCap], who: Who, deadline: float) -> Answer:
        if self._monotonic() >= deadline:
            return busy(sitting, "the time for a decision was over before a cap could be asked")
        charging = Charging(self._ledgers, who, deadline, self._sight)
        try:
            outcome = charging.check(asked) if sitting.change.dry_run else charging.charge(asked)
        except BusyError as error:
            return busy(sitting, str(error))
        except StoreUnavailableError as error:
            raise UndecidedError(f"the ledgers are out of reach: {error}") from error
        if outcome.refused:
            tell = partial(self._telling.beside, sitting.change.namespace)
            return refused(sitting, [problem for booked in outcome.refused for problem in refusals(booked, tell)])
        return granted(sitting, outcome)


def _no_limits(asked: AskedOfCap, before: Charge, after: Charge) -> list[Problem]:
    """The limits that the pod lacks and did not lack before."""
    stored = {name: set(containers) for name, containers in before.unlimited.items()}
    lacking = {
        name: tuple(container for container in containers if container not in stored.get(name, ()))
        for name, containers in after.unlimited.items()
    }
    return [no_limit(asked.counted.cap.name, name, containers) for name, containers in lacking.items() if containers]


def _is_charged(reading: Reading) -> bool:
    change = reading.change
    return reading.target is not None and (
        change.kind == "Pod" and not change.group and change.subresource in _CHARGED_SUBRESOURCES
    )


def _pods(reading: Reading) -> tuple[Pod, Pod | None]:
    change, found = reading.change, reading.target
    assert found is not None  # noqa: S101  # `_is_charged` has asked
    new = reading.judged(found)
    old = decoded(found, change, change.old) if change.old is not None else None
    assert isinstance(new, Pod)  # noqa: S101  # the target of kind Pod decodes pods
    return new, old if isinstance(old, Pod) else None


def _held(counted: Counted, pod: Pod | None, alike: Fingerprint | None = None) -> Charge:
    try:
        return counted.held(pod, alike)
    except QuantityError as error:
        # The API server refuses such a pod before it asks a validating webhook.
        raise ReviewError(f"the pod has a quantity that is none: {error}") from None


def _who(change: Change, pod: Pod, nonce: str) -> Who:
    uid = pod.metadata.uid if pod.metadata else None
    if not uid:
        raise ReviewError("object.metadata.uid is empty: caps are charged in the validating webhook, where it is set")
    kind = Kind.CREATE if change.old is None else Kind.CHANGE
    return Who(uid, change.namespace, change.name, nonce, kind)
