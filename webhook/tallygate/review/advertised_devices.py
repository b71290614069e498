"""The check `advertised` for devices: the classes that claims name exist, and some published device passes.

It applies to new claims, their templates, and pods and workloads with claims from known templates. A request with
alternatives is unavailable only if each of them is: a class that does not exist is always a problem, since
kube-scheduler then rejects the pod, and selectors that no device passes only if no other alternative is left. There is
no verdict if the classes or slices are unknown, and none while a pool is incomplete.

Sources: validateDeviceClass in dynamicresources/dynamicresources.go, and validateDeviceRequest and isSelectable in
k8s.io/dynamic-resource-allocation/structured/internal/incubating, v1.37.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from tallygate.accounting.devices.least_amounts import LeastAmounts, LeastAmountsReview
from tallygate.accounting.devices.slice_devices import WorkLimitError
from tallygate.accounting.devices.unpassed_conditions import UnpassedCondition, find_unpassed_condition
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.claim_checks import DeviceAlternative, list_alternatives
from tallygate.admission.evaluate import SCHEDULER_USER, create_verdict
from tallygate.admission.kinds import ClaimView, DecodedRequest, find_claim
from tallygate.admission.object_checks import RuleViolation
from tallygate.admission.request import ALLOWED, Verdict
from tallygate.admission.rule_codes import NOT_ADVERTISED
from tallygate.admission.rule_index import RuleSelection
from tallygate.objects.devices import ResourceClaim, list_expressions
from tallygate.policy.matching import matches_device_class, matches_resource
from tallygate.policy.model import ResourceRule
from tallygate.review.device_messages import describe_condition, describe_missing_class, shorten
from tallygate.review.incoming_pods import IncomingPods

_MAX_REQUESTS = 32  # of a claim, and claims of a pod: Kubernetes accepts no more
_MAX_UNAVAILABLE = 8  # the search for a similar name takes a millisecond


class DeviceLister(Protocol):
    """A source of the device classes, the published devices, and the templates of claims of a cluster."""

    def list_classes(self) -> Collection[str] | None:
        """Return the names of all device classes; None if they are not known."""
        ...

    def start_review(self) -> LeastAmountsReview | None:
        """Return the published devices for one review; None if they or the selectors of classes are not known."""
        ...

    def find_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as a template makes it; None if the template is not known."""
        ...


class KnownDevices:
    """The classes, devices and templates of a cluster; without `least_amounts` the devices are not known."""

    def __init__(
        self,
        class_names: Callable[[], Collection[str] | None],
        least_amounts: LeastAmounts | None,
        find_claim: Callable[[str, str], ResourceClaim | None],
    ) -> None:
        self.list_classes, self.find_claim = class_names, find_claim
        self._least_amounts = least_amounts

    def start_review(self) -> LeastAmountsReview | None:
        """Return the published devices for one review; None if they are not known."""
        return None if self._least_amounts is None else self._least_amounts.start_review()


class _Unavailable(NamedTuple):
    """A device request that cannot be served: the class, the field, and the message."""

    class_name: str
    field: str
    message: str


def check_claim(decoded_request: DecodedRequest, selection: RuleSelection, devices: DeviceLister) -> Verdict:
    """Return the verdict of the selected rules on the device requests of a new claim or template.

    The requests of a stored one never change, and an allocated claim has its devices. A claim by kube-scheduler follows
    from the extended resources of a pod.

    Raises:
        ReviewError: if the object is not of the kind that it states.
    """
    request, target = decoded_request.request, decoded_request.target
    is_template = request.kind == "ResourceClaimTemplate"
    if target is None or request.subresource or request.old_object is not None:
        return ALLOWED
    created = decoded_request.get_object(target)
    claim = find_claim(created)
    if claim is None or (request.user.name == SCHEDULER_USER and not is_template):
        return ALLOWED
    if isinstance(created, ResourceClaim) and created.status is not None and created.status.allocation is not None:
        return ALLOWED
    labels = (claim.metadata.labels if claim.metadata else None) or {}
    rules = [rule for rule in selection.for_user(request.user, labels).node_rules if rule.checks.advertised]
    check = _DeviceCheck(rules, devices)
    check.add(claim)
    return check.create_verdict()


def check_pod_claims(
    incoming_pods: IncomingPods, namespace: str, rules: Sequence[ResourceRule], devices: DeviceLister
) -> Verdict:
    """Return the verdict of these rules on the claims that known templates make for new pods."""
    spec = incoming_pods.pod.spec
    advertising = [rule for rule in rules if rule.checks.advertised]
    if spec is None or not spec.resource_claims or not advertising:
        return ALLOWED
    check = _DeviceCheck(advertising, devices)
    seen: set[str] = set()
    for index, other_claim in enumerate(spec.resource_claims[:_MAX_REQUESTS]):
        name = other_claim.resource_claim_template_name
        claim = devices.find_claim(namespace, name) if name and name not in seen else None
        if name and claim is not None:
            seen.add(name)
            view = find_claim(claim)
            path = incoming_pods.view.locate(f"spec.resourceClaims[{index}].resourceClaimTemplateName")
            if view is not None:
                check.add(view, path, f"ResourceClaimTemplate {shorten(name)}: ")
    return check.create_verdict()


def check_served_names(
    names: Sequence[tuple[str, str]], incoming_pods: IncomingPods, rules: Sequence[ResourceRule], devices: DeviceLister
) -> Verdict:
    """Return the verdict of these rules on resource names that only devices serve, each with the name of the class."""
    advertising = [
        rule
        for rule in rules
        if rule.checks.advertised and any(matches_resource(rule.resources, name) for name, _ in names)
    ]
    if not advertising:
        return ALLOWED
    check, paths = _DeviceCheck(advertising, devices), incoming_pods.locate_resources()
    for name, class_name in names:
        check.add_name(name, paths.get(name) or incoming_pods.view.locate("spec"), class_name)
    return check.create_verdict()


class _DeviceCheck:
    """The evaluation of rules on device requests; the published devices are searched only if a rule selects a class."""

    def __init__(self, rules: Sequence[ResourceRule], devices: DeviceLister) -> None:
        self._rules = rules
        self._class_names = devices.list_classes() if rules else None
        self._review = devices.start_review() if self._class_names is not None else None
        self._violations: list[RuleViolation] = []
        self._unknown: dict[str, None] = {}
        self._remaining = _MAX_UNAVAILABLE
        self._unpassed: dict[tuple[str, tuple[str, ...]], UnpassedCondition | None] = {}

    def create_verdict(self) -> Verdict:
        """Return the verdict on all that was added."""
        if not self._violations and not self._unknown:
            return ALLOWED
        return create_verdict(self._violations, tuple(self._unknown))

    def add(self, claim: ClaimView, field: str = "", prefix: str = "") -> None:
        """Evaluate the requests of a claim; violations are at `field` if it is given."""
        for alternatives in list_alternatives(claim, _MAX_REQUESTS):
            rules = [rule for rule in self._rules if any(_selects(rule, other) for other in alternatives)]
            if not rules or self._class_names is None:
                continue
            try:
                found = list(self._find_unavailable(alternatives, self._class_names))
            except WorkLimitError:
                self._add_unknown(rules)
                continue
            for unavailable in found[: self._remaining]:
                self._add_violations(
                    [rule for rule in rules if matches_device_class(rule.resources, unavailable.class_name)],
                    unavailable._replace(field=field or unavailable.field, message=f"{prefix}{unavailable.message}"),
                )
            self._remaining -= min(len(found), self._remaining)

    def add_name(self, name: str, field: str, class_name: str) -> None:
        """Evaluate a resource that only the devices of a class serve."""
        rules = [rule for rule in self._rules if matches_resource(rule.resources, name)]
        try:
            found = self._find_unpassed(class_name, ())
        except WorkLimitError:
            self._add_unknown(rules)
            return
        if found is not None:
            message = f"no node advertises {shorten(name)}, and {describe_condition(class_name, found)}"
            self._add_violations(rules, _Unavailable(class_name, field, message))

    def _find_unavailable(
        self, alternatives: Sequence[DeviceAlternative], class_names: Collection[str]
    ) -> Iterator[_Unavailable]:
        """Yield each alternative with a missing class; else all of them, if no device can serve any.

        Raises:
            WorkLimitError: if that is more work than a review may do.
        """
        missing = [alternative for alternative in alternatives if alternative.class_name not in class_names]
        for named_class in missing[: self._remaining]:
            message = describe_missing_class(named_class.class_name, class_names)
            yield _Unavailable(named_class.class_name, f"{named_class.path}.deviceClassName", message)
        if missing:
            return
        unpassed: list[_Unavailable] = []
        for alternative in alternatives:
            found = self._find_unpassed(alternative.class_name, list_expressions(alternative.request.selectors))
            if found is None:
                return
            selector = "deviceClassName" if found.selector is None else f"selectors[{found.selector}].cel.expression"
            message = describe_condition(alternative.class_name, found)
            unpassed.append(_Unavailable(alternative.class_name, f"{alternative.path}.{selector}", message))
        yield from unpassed

    def _find_unpassed(self, class_name: str, selectors: tuple[str, ...]) -> UnpassedCondition | None:
        class_selectors = self._review.find_selectors(class_name) if self._review is not None else None
        if self._review is None or class_selectors is None:
            return None
        key = class_name, selectors
        if key not in self._unpassed:
            self._unpassed[key] = find_unpassed_condition(self._review, class_selectors, selectors)
        return self._unpassed[key]

    def _add_unknown(self, rules: Sequence[ResourceRule]) -> None:
        for rule in rules:
            text = f"rule {rule.name} was not evaluated: the selectors are too much work for the published devices"
            self._unknown[text] = None

    def _add_violations(self, rules: Sequence[ResourceRule], found: _Unavailable) -> None:
        for rule in rules:
            problem = Problem(found.field, NOT_ADVERTISED, Reason.NOT_FOUND, found.message, rule=rule.name)
            identity = (NOT_ADVERTISED, rule.name, found.field)
            self._violations.append(RuleViolation(problem, rule, identity))


def _selects(rule: ResourceRule, alternative: DeviceAlternative) -> bool:
    return matches_device_class(rule.resources, alternative.class_name)
