"""Checks of the registration: requests, selectors, timeouts and reinvocation; and of the gate's permissions."""

from collections.abc import Iterator, Sequence

from tallygate.admission.request import Phase
from tallygate.admission.self_registration import RegistrationState
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.cli.doctor.api_types import MatchCondition, Webhook, WebhookConfiguration
from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    combine_results,
    create_failure,
    create_pass,
    create_unknown,
    create_warning,
    format_kubectl,
    format_names,
    format_namespaced_kubectl,
    format_tallygate,
    format_webhook_patch,
)
from tallygate.cli.doctor.facts import (
    MUTATING,
    VALIDATING,
    GateFacts,
    Unavailable,
    detect_features,
    is_unregistered,
)
from tallygate.cli.doctor.permissions import PERMISSIONS, Permission
from tallygate.cli.doctor.webhook_match import (
    CREATE_POD,
    ExpectedConfigurations,
    RequestKind,
    has_webhook_for,
    is_called_for_pods,
    is_restrictive,
    list_registered_resources,
    list_request_kinds,
)

MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 3, 10
"""The harmless range of a webhook's timeout in seconds. A write of a ledger in a busy cluster can take 2 s, and a
request waits for the whole timeout if the gate hangs.
"""

_PHASES = {MUTATING: Phase.MUTATING, VALIDATING: Phase.VALIDATING}
_OVERLAY = "deploy/kustomize/mine"


def _check_registered(facts: GateFacts) -> CheckResult:
    results = []
    for kind, configuration in ((MUTATING, facts.mutating), (VALIDATING, facts.validating)):
        if isinstance(configuration, Unavailable):
            results.append(create_unknown(f"the {kind} {facts.location.name} cannot be read: {configuration.reason}"))
        elif configuration is None:
            consequence = (
                "requests are accepted without evaluation" if kind == VALIDATING else "no missing limit is filled in"
            )
            results.append(
                create_failure(f"there is no {kind} {facts.location.name}: {consequence}", _format_register(facts))
            )
        elif is_unregistered(configuration):
            results.append(_report_unregistered(facts, kind))
        elif not has_webhook_for(configuration, CREATE_POD):
            results.append(
                create_failure(
                    f"the {kind} {facts.location.name} does not speak of pods",
                    *_list_rule_fixes(facts, kind, configuration),
                )
            )
    return combine_results(
        results, create_pass(f"both are there: {', '.join(kind for kind, _ in facts.list_configurations())}")
    )


def _report_unregistered(facts: GateFacts, kind: str) -> CheckResult:
    """Report the reason of the replica that would register the gate: its readiness check `registration`."""
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    details = [detail for replica in replicas if (detail := replica.find_check("registration"))]
    active = [detail for detail in details if detail.get("state") == RegistrationState.WAITING]
    reasons = [str(detail.get("reason") or "no reason is known") for detail in active or details]
    reason = f"the {kind} {facts.location.name} has no webhooks yet: the gate has not registered itself"
    if reasons:
        return create_failure(f"{reason}: {reasons[0]}")
    if isinstance(facts.replicas, Unavailable) or not facts.replicas:
        remedy = format_namespaced_kubectl(
            facts.location, "describe", "pods", "--selector=app.kubernetes.io/component=gate"
        )
        return create_failure(f"{reason}, and no replica can be asked why", remedy)
    return create_failure(
        f"{reason}: it has no access to the API server",
        format_tallygate(facts.location, "certs", "publish", "certs.d/"),
    )


def _check_rules(facts: GateFacts) -> CheckResult:
    results = []
    expected = ExpectedConfigurations(facts.location)
    for kind, configuration in facts.list_configurations():
        missing = [
            str(request)
            for request in _list_all_request_kinds(expected.get_configuration(kind))
            if not has_webhook_for(configuration, request)
        ]
        if missing:
            results.append(
                create_failure(
                    f"in the {_PHASES[kind]} phase the API server does not ask about {format_names(missing)}",
                    *_list_rule_fixes(facts, kind, configuration),
                )
            )
    counts_text = ", ".join(
        f"{len(list(_list_all_request_kinds(expected.get_configuration(kind))))} in {kind}s" for kind in _PHASES
    )
    return _require_registration(
        facts,
        combine_results(results, create_pass(f"every kind of request that the gate evaluates is sent: {counts_text}")),
    )


def _check_conditions(facts: GateFacts) -> CheckResult:
    results = [
        result
        for kind, configuration in facts.list_configurations()
        for webhook in configuration.webhooks
        for result in _find_bypasses(facts, kind, configuration, webhook)
    ]
    return _require_registration(
        facts, combine_results(results, create_pass("nothing that a tenant writes decides whether we are asked"))
    )


def _find_bypasses(
    facts: GateFacts, kind: str, configuration: WebhookConfiguration, webhook: Webhook
) -> Iterator[CheckResult]:
    def format_fix(field: str, value: object) -> str:
        return format_webhook_patch(facts.location, kind, configuration, webhook, field, value)

    if is_restrictive(webhook.object_selector):
        reason = f"{webhook.name} has an objectSelector: who labels his object gets past it"
        yield create_failure(reason, format_fix("objectSelector", {}))
    if webhook.match_policy != "Equivalent":
        reason = f"{webhook.name} has matchPolicy {webhook.match_policy}: another version of an API gets past it"
        yield create_warning(reason, format_fix("matchPolicy", "Equivalent"))
    resources = list_registered_resources(configuration, facts.workloads.known)
    implies_requests = not isinstance(facts.policies, Unavailable) and bool(facts.policies.implied_requests)
    expected = ExpectedConfigurations(facts.location, resources, implies_requests=implies_requests)
    expected_webhook = expected.find_webhook(kind, webhook.name)
    if expected_webhook is not None and (
        unexpected := _format_unexpected(expected_webhook.match_conditions, webhook.match_conditions)
    ):
        reason = (
            f"{webhook.name} has match conditions that the gate does not register and that may exclude requests: "
            f"{unexpected}"
        )
        yield create_warning(
            reason, format_fix("matchConditions", expected.get_field(kind, webhook.name, "matchConditions") or [])
        )


def _format_unexpected(expected: tuple[MatchCondition, ...], conditions: tuple[MatchCondition, ...]) -> str:
    return format_names([condition.name for condition in conditions if condition not in expected])


def _check_timeouts(facts: GateFacts) -> CheckResult:
    results = []
    for kind, configuration in facts.list_configurations():
        for webhook in configuration.webhooks:
            seconds = webhook.timeout_seconds
            if seconds < MIN_TIMEOUT_SECONDS:
                reason = f"{webhook.name} is given {seconds} s: under load a write to a ledger takes longer"
            elif seconds > MAX_TIMEOUT_SECONDS:
                reason = f"{webhook.name} is given {seconds} s: with a gate that hangs, every create hangs for so long"
            else:
                continue
            results.append(
                create_warning(
                    reason, format_webhook_patch(facts.location, kind, configuration, webhook, "timeoutSeconds", 5)
                )
            )
    timeouts = sorted(
        {
            webhook.timeout_seconds
            for _, configuration in facts.list_configurations()
            for webhook in configuration.webhooks
        }
    )
    return _require_registration(facts, combine_results(results, create_pass(f"{', '.join(map(str, timeouts))} s")))


def _check_reinvocation(facts: GateFacts) -> CheckResult:
    """Check the mutating webhooks after the gate's.

    The API server calls them in the order of their configurations' names (apiserver, mutating_webhook_manager.go).
    """
    if facts.registration_problem or not isinstance(facts.mutating, WebhookConfiguration):
        return create_unknown(facts.registration_problem or "the gate's own mutating configuration cannot be seen")
    if isinstance(facts.other_configurations, Unavailable):
        return create_unknown(f"other configurations cannot be read: {facts.other_configurations.reason}")
    own_configuration = facts.mutating
    later_names = sorted(
        configuration.name
        for configuration in facts.other_configurations
        if configuration.name > own_configuration.name and has_webhook_for(configuration, CREATE_POD)
    )
    if not later_names:
        return create_pass("no other mutating webhook sees pods after the gate")
    results = [
        create_warning(
            f"{format_names(later_names)} may change pods after {webhook.name}, which is not called again "
            "(reinvocationPolicy "
            "Never): what is then missing is refused instead of filled in",
            format_webhook_patch(
                facts.location, MUTATING, own_configuration, webhook, "reinvocationPolicy", "IfNeeded"
            ),
        )
        for webhook in own_configuration.webhooks
        if is_called_for_pods(webhook) and webhook.reinvocation_policy != "IfNeeded"
    ]
    return combine_results(
        results, create_pass(f"{format_names(later_names)} may change pods after the gate, which is then asked again")
    )


def _require_registration(facts: GateFacts, result: CheckResult) -> CheckResult:
    return create_unknown(facts.registration_problem) if facts.registration_problem else result


def _list_all_request_kinds(configuration: WebhookConfiguration) -> Iterator[RequestKind]:
    for webhook in configuration.webhooks:
        for rule in webhook.rules:
            yield from list_request_kinds(rule)


def _list_rule_fixes(facts: GateFacts, kind: str, configuration: WebhookConfiguration) -> Iterator[str]:
    """Yield commands that restore the registered rules of every webhook."""
    expected = ExpectedConfigurations(facts.location)
    for webhook in configuration.webhooks:
        expected_webhook = expected.find_webhook(kind, webhook.name)
        if expected_webhook is not None and expected_webhook.rules != webhook.rules:
            yield format_webhook_patch(
                facts.location, kind, configuration, webhook, "rules", expected.get_field(kind, webhook.name, "rules")
            )
    names = {webhook.name for webhook in configuration.webhooks}
    if any(webhook.name not in names for webhook in expected.get_configuration(kind).webhooks):
        yield _format_register(facts)


def _format_register(facts: GateFacts) -> str:
    """Return a command that applies the overlay of the user (deploy/README.md)."""
    return format_kubectl(facts.location, "apply", "-k", "deploy/kustomize/mine")


CHECKS = (
    Check(
        "registered",
        "Both webhook configurations are there",
        "FAIL: one is missing, has no webhooks yet, or does not select pods",
        _check_registered,
    ),
    Check(
        "rules",
        "They have every kind of request that the gate evaluates, resize and status included",
        "FAIL: one kind is not sent",
        _check_rules,
    ),
    Check(
        "conditions",
        "No label of an object and no condition lets a request past",
        "FAIL: an objectSelector; WARN: conditions that are not ours, matchPolicy Exact",
        _check_conditions,
    ),
    Check(
        "timeouts",
        "The time that is given fits",
        f"WARN: less than {MIN_TIMEOUT_SECONDS} s or more than {MAX_TIMEOUT_SECONDS} s",
        _check_timeouts,
    ),
    Check(
        "reinvocation",
        "The gate is called again after a change by another webhook",
        "WARN: other webhooks change pods after the gate, and reinvocationPolicy is Never",
        _check_reinvocation,
    ),
)


def _check_permissions(facts: GateFacts) -> CheckResult:
    if isinstance(facts.permissions, Unavailable):
        return create_unknown(f"what the gate's ServiceAccount may do could not be asked: {facts.permissions.reason}")
    features = detect_features(facts)
    needed = [
        permission_result
        for permission_result in facts.permissions
        if features is None or permission_result.permission.feature in features
    ]
    account = f"{facts.location.namespace}/tallygate"
    if not needed:
        return create_pass(f"ServiceAccount {account} needs none: the gate watches no cluster")
    missing = [str(permission.permission) for permission in needed if not permission.allowed]
    if not missing:
        return create_pass(f"ServiceAccount {account} has all {len(needed)} permissions that it needs")
    create_result = create_warning if features is None else create_failure
    reason = f"ServiceAccount {account} lacks {len(missing)} of {len(needed)} permissions: {format_names(missing)}"
    return create_result(
        reason, *_list_grants(facts, [permission.permission for permission in needed if not permission.allowed])
    )


def _list_grants(facts: GateFacts, missing: Sequence[Permission]) -> Iterator[str]:
    """Yield commands that grant permissions: those that deploy/ grants, and those on kinds that policies define."""
    location = facts.location
    files = dict.fromkeys(permission.feature.manifest_path for permission in missing if permission in PERMISSIONS)
    if files and location.namespace != DEFAULT_NAMESPACE:  # only the user's overlay has this namespace
        yield format_kubectl(location, "apply", "-k", _OVERLAY)
    else:
        yield from (format_kubectl(location, "apply", f"--filename={file}") for file in files)
    for permission in missing:
        if permission in PERMISSIONS:
            continue
        resource = f"{permission.resource}.{permission.group}"
        name = f"{CONFIGURATION_NAME}-{permission.verb}-{resource}"
        account = f"--serviceaccount={location.namespace}:{location.service_account}"
        role = (f"--verb={permission.verb}", f"--resource={resource}")
        yield format_kubectl(location, "create", "clusterrole", name, *role)
        yield format_kubectl(location, "create", "clusterrolebinding", name, f"--clusterrole={name}", account)


PERMISSION_CHECKS = (
    Check(
        "permissions",
        "The gate's ServiceAccount has the permissions that it needs",
        "FAIL: one is missing; WARN: one is missing, and it is unknown whether the gate needs it",
        _check_permissions,
    ),
)
