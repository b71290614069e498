"""The checks of one object: every violation of the selected rules, with its field path."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from tallygate.accounting.name_rules import NameContext
from tallygate.accounting.pod_requests import compute_pod_requests, explain_request
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission import compiled_checks
from tallygate.admission.compiled_checks import CheckFailure, CompiledChecks, RuleCheckFailure
from tallygate.admission.pod_view import PodView
from tallygate.admission.resource_fields import ResourceField, strip_quota_prefix
from tallygate.admission.rule_codes import LIMIT_MISSING, POD_BOUND, REQUEST_NOT_LIMIT, TOO_LARGE
from tallygate.admission.rule_index import RuleSelection
from tallygate.objects.core import PodSpec, ResourceList
from tallygate.policy.model import AmountBounds, Enforcement, Equality, ResourceRule

_VERBS = {NameContext.NODE: "advertise", NameContext.QUOTA: "write", NameContext.LIMIT_RANGE: "write"}
"""The verb of the advice in fields that no pod requests from."""

MAX_VIOLATIONS = 1000
"""The maximum of violations per object and enforcement; the checks stop after this number of denials."""

ViolationIdentity = tuple[str, ...]
"""A key that is equal for the same violation in two versions of an object."""


class RuleViolation(NamedTuple):
    """A problem, its rule, and an identity that stays the same across versions of the object."""

    problem: Problem
    rule: ResourceRule
    identity: ViolationIdentity


class ViolationCollector:
    """A list of new violations: at most `max_violations` per enforcement (None: all).

    The limit counts each enforcement on its own, so that warnings never displace denials.
    """

    def __init__(self, existing: frozenset[ViolationIdentity], max_violations: int | None) -> None:
        self.violations: list[RuleViolation] = []
        self._existing = existing
        self._max_violations = max_violations
        self._counts = dict.fromkeys(Enforcement, 0)

    @property
    def is_full(self) -> bool:
        """True if the denials have reached the limit, so that more violations would help no user."""
        return self._is_full_of(Enforcement.DENY)

    def add(self, violations: Iterable[RuleViolation]) -> None:
        """Append the violations that are new, up to the limit of their enforcement."""
        for violation in violations:
            if self.is_full:
                return  # without the checks that would find more
            enforcement = violation.rule.enforcement
            if violation.identity not in self._existing and not self._is_full_of(enforcement):
                self._counts[enforcement] += 1
                self.violations.append(violation)

    def _is_full_of(self, enforcement: Enforcement) -> bool:
        return self._max_violations is not None and self._counts[enforcement] >= self._max_violations


def check_object(  # noqa: PLR0913  # two settings by name, of which callers rarely need any
    resource_fields: list[ResourceField],
    pod_view: PodView | None,
    selection: RuleSelection,
    *,
    fills_limits: bool,
    existing: frozenset[ViolationIdentity] = frozenset(),
    max_violations: int | None = MAX_VIOLATIONS,
) -> list[RuleViolation]:
    """Return the violations of every quantity and name of an object.

    `fills_limits` is true if the mutating phase is about to fill in missing limits. The result omits the violations in
    `existing` and has at most `max_violations` per enforcement (None: all, which the size of the object bounds).
    """
    collector = ViolationCollector(existing, max_violations)
    names: set[str] = set()
    too_large_names: set[str] = set()
    has_large = False
    for resource_field in resource_fields:
        path, identity, context, lists, requests_and_limits, is_container, _ = resource_field
        is_quota = context is NameContext.QUOTA
        verb = _VERBS.get(context, compiled_checks.REQUEST_VERB)
        for field, entries in lists:
            for written_name, raw in entries.items():
                checks = selection.get_checks(strip_quota_prefix(written_name) if is_quota else written_name)
                if checks.group.is_empty:
                    continue
                names.add(checks.name)
                token = bytes(raw)
                if (
                    requests_and_limits
                    and field == "limits"
                    and (request := requests_and_limits[0].get(written_name))
                    and bytes(request) == token
                ):
                    continue  # the API server copied it: one violation is one problem
                result = checks.check_quantity(token, is_container=is_container, verb=verb)
                has_large = has_large or result.is_large
                failures = checks.check_name(written_name, context) + result.failures
                if failures:
                    too_large_names |= {written_name for failure in failures if failure.failure.code == TOO_LARGE}
                    collector.add(_create_entry_violations(path, identity, (field, written_name, token), failures))
                    if collector.is_full:
                        return collector.violations
        if requests_and_limits:
            collector.add(
                _check_equality(resource_field, requests_and_limits, pod_view, selection, fills_limits=fills_limits)
            )
    if pod_view is not None and pod_view.pod.spec is not None and (has_large or selection.has_pod_bounds):
        collector.add(_check_pod_requests(pod_view, pod_view.pod.spec, names - too_large_names, selection))
    return collector.violations


def relocate_amounts(violations: list[RuleViolation], amounts: Mapping[str, str] | None) -> list[RuleViolation]:
    """Return the violations at the fields that state their amounts, by the fields of a container."""
    if not amounts:
        return violations
    fields = (amounts.get(violation.problem.field, violation.problem.field) for violation in violations)
    return [
        violation._replace(problem=replace(violation.problem, field=field))
        for violation, field in zip(violations, fields, strict=True)
    ]


def _create_entry_violations(
    path: str, identity: str, entry: tuple[str, str, bytes], failures: tuple[RuleCheckFailure, ...]
) -> Iterator[RuleViolation]:
    field, name, token = entry
    path_of_entry = f"{path}{field}[{name}]"
    for rule, failure in ((rule_failure.rule, rule_failure.failure) for rule_failure in failures):
        yield create_violation(path_of_entry, rule, failure, (identity, field, name, token.decode("utf-8", "replace")))


def create_violation(field_path: str, rule: ResourceRule, failure: CheckFailure, key: tuple[str, ...]) -> RuleViolation:
    """Return the violation of a rule by a field; `key` distinguishes it from other violations of the object."""
    problem = Problem(field_path, failure.code, failure.reason, failure.message, value=failure.value, rule=rule.name)
    return RuleViolation(problem, rule, (failure.code, rule.name, *key))


def _check_equality(
    resource_field: ResourceField,
    requests_and_limits: tuple[ResourceList, ResourceList],
    pod_view: PodView | None,
    selection: RuleSelection,
    *,
    fills_limits: bool,
) -> Iterator[RuleViolation]:
    """Yield the violations of rules that demand equal requests and limits.

    Of a template that is a part, another object may have the limits that it lacks.
    """
    requests, limits = requests_and_limits
    is_partial = pod_view is not None and pod_view.is_partial
    for name, raw in requests.items():
        checks = selection.get_checks(name)
        if not checks.group.equality_rules:
            continue
        request = bytes(raw)
        limit = bytes(limits[name]) if name in limits else None
        if request == limit or (limit is None and is_partial):
            continue
        is_default = name in resource_field.default_requests
        failure = (
            _create_missing_limit_failure(checks, request, is_default=is_default)
            if limit is None
            else _create_difference_failure(checks, request, limit)
        )
        if failure is None:
            continue
        field_path = f"{resource_field.path}limits" if limit is None else f"{resource_field.path}requests[{name}]"
        for rule, equality in checks.group.equality_rules:
            if limit is not None or is_default or not (fills_limits and equality is Equality.FILL):
                yield create_violation(
                    field_path, rule, failure, (resource_field.identity, name, str(request), str(limit))
                )


def _create_missing_limit_failure(checks: CompiledChecks, request: bytes, *, is_default: bool) -> CheckFailure | None:
    """Return the failure of a request without a limit; `is_default` if a LimitRange has set the request."""
    try:
        requested = Quantity.from_json(request)
    except QuantityError:
        return None
    if is_default:
        message = (
            f"a LimitRange of the namespace requests {requested} {checks.name} for this container, and sets no limit: "
            "Kubernetes rejects every such pod. The pod is not at fault: remove "
            f"defaultRequest or min of {checks.name} from the LimitRange"
        )
        return CheckFailure(LIMIT_MISSING, Reason.REQUIRED, "", message)
    message = (
        f"{checks.name} is requested without a limit; what is not overcommitted needs both, and the same: "
        f"set limits[{checks.name}] to {_choose_amount(checks, requested)}"
    )
    return CheckFailure(LIMIT_MISSING, Reason.REQUIRED, "", message)


def _create_difference_failure(checks: CompiledChecks, request: bytes, limit: bytes) -> CheckFailure | None:
    try:
        requested, limited = Quantity.from_json(request), Quantity.from_json(limit)
    except QuantityError:
        return None
    if requested == limited:
        return None
    larger = max(requested, limited)
    choice = larger if larger.is_whole or not checks.group.whole_rules else Quantity.from_int(larger.value())
    message = (
        f"request {requested} and limit {limited} of {checks.name} differ; it cannot be overcommitted: set both to "
        f"{choice}"
    )
    return CheckFailure(REQUEST_NOT_LIMIT, Reason.INVALID, requested.text, message)


def _choose_amount(checks: CompiledChecks, quantity: Quantity) -> Quantity:
    """Return the amount to advise: one that no other check of the same resource denies as a fraction."""
    return quantity if quantity.is_whole or not checks.group.whole_rules else Quantity.from_int(quantity.value())


def _check_pod_requests(
    pod_view: PodView, spec: PodSpec, names: set[str], selection: RuleSelection
) -> Iterator[RuleViolation]:
    try:
        effective = compute_pod_requests(spec)
    except QuantityError:
        return  # an entry is unreadable, and its rule reports it
    for name in sorted(names & effective.quantities.keys()):
        total, checks = effective.quantities[name], selection.get_checks(name)
        field_path, key = pod_view.locate("spec"), (f"{pod_view.identity}sum", name, total.text)
        for rule in checks.group.whole_rules:
            if total.is_beyond_int64:
                yield create_violation(
                    field_path, rule, compiled_checks.create_too_large_failure(f"{total} {name} in all"), key
                )
        for rule, bounds in checks.group.pod_bounds:
            if pod_view.is_partial:  # further containers may add to it
                bounds = AmountBounds(max=bounds.max)  # noqa: PLW2901
            for message in _describe_bound_violations(
                f"the pod requests {total} {name} in all ({explain_request(effective, name)})", total, bounds
            ):
                failure = CheckFailure(POD_BOUND, Reason.INVALID, total.text, message)
                yield create_violation(field_path, rule, failure, key)


def _describe_bound_violations(prefix: str, total: Quantity, bounds: AmountBounds) -> Iterator[str]:
    if total.sign <= 0:
        return
    if bounds.min is not None and total < bounds.min:
        yield f"{prefix}, less than the {bounds.min} that a pod must request"
    if bounds.max is not None and total > bounds.max:
        yield f"{prefix}, {f'more than the {bounds.max} that one pod' if bounds.max else 'which no pod'} may have"
    if bounds.multiple_of is not None and not total.is_multiple_of(bounds.multiple_of):
        nearest = " or ".join(
            str(multiple) for multiple in compiled_checks.find_nearest_multiples(total, bounds.multiple_of)
        )
        yield f"{prefix}, not a multiple of {bounds.multiple_of}: request {nearest}"
    if bounds.one_of and total not in bounds.one_of:
        yield f"{prefix}: request one of {', '.join(str(choice) for choice in bounds.one_of)}"
