"""The checks of claims for devices and of their templates: every violation of the rules, with its field path.

A rule checks the device requests whose class it names, and each alternative of a request. The amount of a claim is the
number of devices that it may get, as caps count it (tallygate.accounting.claim_charge). With alternatives there may be
several amounts, and each must be within the bounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tallygate.accounting.claim_charge import MAX_DEVICES
from tallygate.accounting.problem import Reason
from tallygate.accounting.quantity import Quantity
from tallygate.admission.compiled_checks import CheckFailure, find_nearest_multiples
from tallygate.admission.kinds import ClaimView
from tallygate.admission.object_checks import (
    MAX_VIOLATIONS,
    RuleViolation,
    ViolationCollector,
    ViolationIdentity,
    create_violation,
)
from tallygate.admission.request import UserInfo
from tallygate.admission.rule_codes import (
    ADMIN_ACCESS_NOT_ALLOWED,
    ALLOCATION_MODE_NOT_ALLOWED,
    CLAIM_BOUND,
    CLASS_NOT_ALLOWED,
    SELECTOR_MISSING,
)
from tallygate.objects.devices import DeviceRequest, DeviceSubRequest, ExactDeviceRequest
from tallygate.policy.matching import matches_class_name, matches_device_class, matches_subjects
from tallygate.policy.model import AllocationMode, AmountBounds, DeviceChecks, ResourceRule
from tallygate.policy.selectors import Subjects

CLAIM_CONTROLLERS = frozenset(
    {"system:serviceaccount:kube-system:resource-claim-controller", "system:kube-controller-manager"}
)
"""The users of the controller that creates claims from templates, with and without credentials of its own."""

TEMPLATE_KIND = "ResourceClaimTemplate"
SELECTOR_ADVICE = (
    "the request selects devices by their class alone: add a selector, as in "
    """cel: {expression: 'device.driver == "gpu.example.com"'}"""
)
"""The sentence about a device request without a selector."""

_MAX_SHOWN_LENGTH = 100
_MAX_SHOWN_CLASSES = 3
_NO_USERS = Subjects()


@dataclass(frozen=True, slots=True)
class DeviceAlternative:
    """One alternative of a device request, or the request itself: its path, and the names that identify it."""

    path: str
    names: tuple[str, str]
    request: ExactDeviceRequest | DeviceSubRequest

    @property
    def class_name(self) -> str:
        return self.request.device_class_name

    @property
    def mode(self) -> str:
        return self.request.allocation_mode or AllocationMode.EXACT_COUNT

    @property
    def has_admin_access(self) -> bool:
        """Whether the devices stay free for others."""
        return isinstance(self.request, ExactDeviceRequest) and bool(self.request.admin_access)

    @property
    def count(self) -> int | None:
        if self.mode == AllocationMode.ALL:
            return None
        return 1 if self.request.count is None else max(self.request.count, 0)


def check_claim(
    claim: ClaimView,
    rules: Sequence[ResourceRule],
    user: UserInfo,
    *,
    existing: frozenset[ViolationIdentity] = frozenset(),
    max_violations: int | None = MAX_VIOLATIONS,
) -> list[RuleViolation]:
    """Return the violations of these rules by a claim or a template that this user writes.

    The result omits the violations in `existing` and has at most `max_violations` per enforcement (None: all).
    """
    collector = ViolationCollector(existing, max_violations)
    requests = list_alternatives(claim)
    for rule in rules:
        for alternatives in requests:
            for alternative in alternatives:
                if rule.checks.devices is not None and _is_selected(rule, alternative):
                    collector.add(_check_alternative(alternative, rule, rule.checks.devices, user))
        if rule.checks.per_claim is not None:
            collector.add(_check_amounts(claim, requests, rule, rule.checks.per_claim))
        if collector.is_full:
            break
    return collector.violations


def list_claim_rules(claim: ClaimView, rules: Iterable[ResourceRule]) -> Iterator[ResourceRule]:
    """Yield the rules that check some device request of a claim."""
    alternatives = [alternative for alternatives in list_alternatives(claim) for alternative in alternatives]
    for rule in rules:
        has_checks = rule.checks.per_claim or rule.checks.devices
        if has_checks and any(_is_selected(rule, alternative) for alternative in alternatives):
            yield rule


def describe_unknown_users(claim: ClaimView, rules: Iterable[ResourceRule], user: UserInfo) -> Iterator[str]:
    """Yield a sentence for each rule that allows some users admin access to devices, where the user is unknown."""
    alternatives = [
        alternative
        for alternatives in list_alternatives(claim)
        for alternative in alternatives
        if alternative.has_admin_access
    ]
    for rule in rules if alternatives and not user.name else ():
        if (
            rule.checks.devices is not None
            and rule.checks.devices.admin_access not in {None, _NO_USERS}
            and any(_is_selected(rule, alternative) for alternative in alternatives)
        ):
            yield f"rule {rule.name} did not check adminAccess: the user of the request is unknown here"


def list_alternatives(claim: ClaimView, max_requests: int | None = None) -> list[list[DeviceAlternative]]:
    """Return the alternatives of each device request, of the first ones only with `max_requests`."""
    return [
        list(_list_alternatives(f"{claim.path}.devices.requests[{index}]", request))
        for index, request in enumerate(claim.requests[:max_requests])
    ]


def _list_alternatives(path: str, request: DeviceRequest) -> Iterator[DeviceAlternative]:
    if request.exactly is not None:
        yield DeviceAlternative(f"{path}.exactly", (request.name, ""), request.exactly)
    for index, alternative in enumerate(request.first_available or ()):
        yield DeviceAlternative(f"{path}.firstAvailable[{index}]", (request.name, alternative.name), alternative)


def _is_selected(rule: ResourceRule, alternative: DeviceAlternative) -> bool:
    return matches_device_class(rule.resources, alternative.class_name)


def _check_alternative(
    alternative: DeviceAlternative, rule: ResourceRule, checks: DeviceChecks, user: UserInfo
) -> Iterator[RuleViolation]:
    for field, failure in _find_failures(alternative, rule, checks, user):
        yield create_violation(
            f"{alternative.path}.{field}", rule, failure, (*alternative.names, alternative.class_name, failure.value)
        )


def _find_failures(
    alternative: DeviceAlternative, rule: ResourceRule, checks: DeviceChecks, user: UserInfo
) -> Iterator[tuple[str, CheckFailure]]:
    class_name, mode = _shorten(alternative.class_name), _shorten(alternative.mode)
    if checks.classes and not matches_class_name(checks.classes, alternative.class_name):
        message = f'class "{class_name}" is not allowed: the rule allows {", ".join(checks.classes)}'
        yield "deviceClassName", _create_failure(CLASS_NOT_ALLOWED, Reason.INVALID, class_name, message)
    if checks.allocation_modes and alternative.mode not in checks.allocation_modes:
        advice = (
            "write ExactCount and a count" if AllocationMode.EXACT_COUNT in checks.allocation_modes else "write All"
        )
        message = f"allocationMode {mode} is not allowed: {advice}"
        yield "allocationMode", _create_failure(ALLOCATION_MODE_NOT_ALLOWED, Reason.INVALID, mode, message)
    if alternative.has_admin_access and _is_admin_access_denied(rule, checks, user):
        subject = (
            f"user {_shorten(user.name)} may not" if user.name and checks.admin_access != _NO_USERS else "no user may"
        )
        message = f"{subject} request admin access to these devices: remove adminAccess"
        yield "adminAccess", _create_failure(ADMIN_ACCESS_NOT_ALLOWED, Reason.FORBIDDEN, "true", message)
    if checks.selectors and not alternative.request.selectors:
        yield "selectors", _create_failure(SELECTOR_MISSING, Reason.REQUIRED, "", SELECTOR_ADVICE)


def _is_admin_access_denied(rule: ResourceRule, checks: DeviceChecks, user: UserInfo) -> bool:
    """Return whether this user may not request admin access.

    Of a claim that Kubernetes creates from a template the user is known at the template, if the rule checks templates.
    """
    if checks.admin_access is None or matches_subjects(checks.admin_access, user.name, user.groups):
        return False
    if checks.admin_access == _NO_USERS:
        return True
    checks_templates = rule.match.kinds is None or TEMPLATE_KIND in rule.match.kinds
    return bool(user.name) and not (checks_templates and user.name in CLAIM_CONTROLLERS)


def _check_amounts(
    claim: ClaimView, requests: list[list[DeviceAlternative]], rule: ResourceRule, bounds: AmountBounds
) -> Iterator[RuleViolation]:
    counted: list[DeviceAlternative] = []
    counts_by_request: list[set[int | None]] = []
    for alternatives in requests:
        selected = [
            alternative
            for alternative in alternatives
            if _is_selected(rule, alternative) and not alternative.has_admin_access
        ]
        counted += selected
        others = {0} if len(selected) < len(alternatives) else set[int]()
        counts_by_request.append({alternative.count for alternative in selected} | others)
    amounts = compute_possible_amounts(counts_by_request)
    if not amounts:
        return
    path = _find_amount_path(claim, counted)
    has_all = any(alternative.count is None for alternative in counted)
    for amount, text in _find_bound_failures(amounts, bounds, has_all=has_all):
        devices = f"{amount} {'device' if amount == 1 else 'devices'} of {_join_classes(counted)}"
        message = f"the claim {'requests' if len(amounts) == 1 and not has_all else 'may get'} {devices}{text}"
        failure = _create_failure(CLAIM_BOUND, Reason.INVALID, str(amount), message)
        yield create_violation(path, rule, failure, ("sum", message))


def compute_possible_amounts(counts_by_request: Iterable[set[int | None]]) -> set[int]:
    """Return the numbers of devices that a claim may get, without 0; a count of None requests all devices of a node.

    All of a node are at most `MAX_DEVICES`, together with those of other requests. Of the sums beyond `MAX_DEVICES`,
    which no claim can get, the result has the largest only, so that its size is limited.
    """
    sums = {(0, False)}
    largest = 0
    for counts in counts_by_request:
        largest += max((count for count in counts if count is not None), default=0)
        sums = {
            (total, True) if count is None else (total + count, has_all)
            for total, has_all in sums
            for count in counts or {0}
            if count is None or total + count <= MAX_DEVICES
        }
    amounts = {MAX_DEVICES if has_all else total for total, has_all in sums}
    return (amounts | ({largest} if largest > MAX_DEVICES else set())) - {0}


def _find_bound_failures(amounts: set[int], bounds: AmountBounds, *, has_all: bool) -> Iterator[tuple[int, str]]:
    """Yield each bound that some amount violates: the amount, and the end of the sentence about it."""
    mode = " with allocationMode ExactCount" if has_all else ""
    least, most = min(amounts), max(amounts)
    if bounds.min is not None and Quantity.from_int(least) < bounds.min:
        yield least, f", fewer than the {bounds.min} that a claim must request: request {bounds.min} or more"
    if bounds.max is not None and Quantity.from_int(most) > bounds.max:
        advice = "request none" if bounds.max.sign == 0 else f"request {bounds.max} or fewer{mode}"
        yield most, f", more than the {bounds.max} that one claim may have: {advice}"
    for amount in sorted(amounts, reverse=True):
        unit = bounds.multiple_of
        if unit is not None and not Quantity.from_int(amount).is_multiple_of(unit):
            nearest = " or ".join(str(multiple) for multiple in find_nearest_multiples(Quantity.from_int(amount), unit))
            yield amount, f", not a multiple of {unit}: request {nearest}{mode}"
            break
    for amount in sorted(amounts, reverse=True):
        if bounds.one_of and Quantity.from_int(amount) not in bounds.one_of:
            yield amount, f": request one of {', '.join(str(choice) for choice in bounds.one_of)}{mode}"
            break


def _find_amount_path(claim: ClaimView, counted: list[DeviceAlternative]) -> str:
    """Return the field with the amount if only one counts, else that of all requests."""
    if len(counted) != 1:
        return f"{claim.path}.devices.requests"
    return f"{counted[0].path}.{'count' if counted[0].count is not None else 'allocationMode'}"


def _join_classes(alternatives: list[DeviceAlternative]) -> str:
    names = sorted({_shorten(alternative.class_name) for alternative in alternatives})
    shown = names[:_MAX_SHOWN_CLASSES]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…"


def _create_failure(code: str, reason: Reason, value: str, message: str) -> CheckFailure:
    return CheckFailure(code, reason, value, message)
