"""Checks for requests that the gate can block while it is down, and for namespaces that are excluded from it."""

from collections.abc import Iterator, Sequence

from tallygate.accounting.selectors import SelectorError, parse_selector
from tallygate.admission.self_registration import FAILURE_POLICY_ANNOTATION
from tallygate.admission.webhook_configuration import LIMITS_WEBHOOK
from tallygate.cli.doctor.api_types import (
    GateDeployment,
    GateDisruptionBudget,
    LabelledNamespace,
    Webhook,
    WebhookConfiguration,
)
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
    format_webhook_patch,
)
from tallygate.cli.doctor.facts import VALIDATING, GateFacts, Unavailable
from tallygate.cli.doctor.permissions import Feature, parse_features
from tallygate.cli.doctor.webhook_match import (
    CREATE_POD,
    UPDATE_POD,
    ExpectedConfigurations,
    RequestKind,
    is_called_for,
    is_called_for_pods,
    is_namespace_selected,
)

_FAIL_POLICY = "Fail"
_KUBE_SYSTEM = "kube-system"
_MIN_REPLICAS = 2
_VITAL_REQUESTS = (
    RequestKind("", "nodes", "CREATE", "Cluster"),
    RequestKind("", "nodes/status", "UPDATE", "Cluster"),
    RequestKind("coordination.k8s.io", "leases", "UPDATE", "Namespaced"),
    RequestKind("", "namespaces", "UPDATE", "Cluster"),
    RequestKind("", "endpoints", "UPDATE", "Namespaced"),
    RequestKind("discovery.k8s.io", "endpointslices", "UPDATE", "Namespaced"),
    RequestKind("", "secrets", "UPDATE", "Namespaced"),
    RequestKind("", "configmaps", "UPDATE", "Namespaced"),
    RequestKind("", "serviceaccounts/token", "CREATE", "Namespaced"),
    RequestKind("", "pods/status", "UPDATE", "Namespaced"),
    RequestKind("", "pods/binding", "CREATE", "Namespaced"),
    RequestKind("", "pods/eviction", "CREATE", "Namespaced"),
    RequestKind("", "pods", "DELETE", "Namespaced"),
    RequestKind("apiextensions.k8s.io", "customresourcedefinitions", "UPDATE", "Cluster"),
    RequestKind("certificates.k8s.io", "certificatesigningrequests", "CREATE", "Cluster"),
    RequestKind("rbac.authorization.k8s.io", "clusterroles", "UPDATE", "Cluster"),
)
"""The requests that a cluster needs to recover while no gate responds. The gate evaluates none of them."""

_RegisteredWebhook = tuple[str, WebhookConfiguration, Webhook]


def _list_failing_webhooks(facts: GateFacts) -> Iterator[_RegisteredWebhook]:
    """Yield the webhooks whose failure rejects a request."""
    for kind, configuration in facts.list_configurations():
        for webhook in configuration.webhooks:
            if webhook.failure_policy == _FAIL_POLICY:
                yield kind, configuration, webhook


def _check_failure_policy(facts: GateFacts) -> CheckResult:
    if facts.registration_problem:
        return create_unknown(facts.registration_problem)
    results = list(_find_open_webhooks(facts))
    if any(is_called_for_pods(webhook) for _, _, webhook in _list_failing_webhooks(facts)):
        results += _check_availability(facts)
    return combine_results(results, create_pass(_format_failure_policy(facts)))


def _find_open_webhooks(facts: GateFacts) -> Iterator[CheckResult]:
    for kind, configuration in facts.list_configurations():
        for webhook in configuration.webhooks:
            if is_called_for_pods(webhook) and webhook.failure_policy != _FAIL_POLICY:
                reason = f"{webhook.name} has failurePolicy Ignore: all pods are accepted while no gate answers"
                yield create_warning(reason, _format_policy_fix(facts, kind, configuration, webhook))
            elif webhook.name == LIMITS_WEBHOOK and webhook.failure_policy != _FAIL_POLICY:
                reason = (
                    f"{webhook.name} has failurePolicy {webhook.failure_policy}: while no gate answers, annotations "
                    "that set limits are accepted from each user who may update namespaces"
                )
                patch = format_webhook_patch(
                    facts.location, kind, configuration, webhook, "failurePolicy", _FAIL_POLICY
                )
                yield create_warning(reason, patch)


def _format_policy_fix(facts: GateFacts, kind: str, configuration: WebhookConfiguration, webhook: Webhook) -> str:
    """Return a command that sets the failure policy, or asks the gate to, which would restore its own otherwise."""
    if configuration.is_left_to_gate:
        return format_kubectl(
            facts.location,
            "annotate",
            kind,
            configuration.name,
            f"{FAILURE_POLICY_ANNOTATION}={_FAIL_POLICY}",
            "--overwrite",
        )
    return format_webhook_patch(facts.location, kind, configuration, webhook, "failurePolicy", _FAIL_POLICY)


def _check_availability(facts: GateFacts) -> Iterator[CheckResult]:
    """Check the availability that failurePolicy Fail requires."""
    if facts.is_called_by_url:
        return
    deployment = facts.deployment
    if isinstance(deployment, Unavailable):
        yield create_unknown(f"the Deployment cannot be read: {deployment.reason}")
    elif deployment is None:
        yield create_failure(
            f"failurePolicy is Fail, and there is no Deployment {facts.location.namespace}/tallygate to answer"
        )
    elif deployment.status.ready_replicas == 0:
        yield _report_no_ready_replica(facts, deployment)
    elif deployment.spec.replicas < _MIN_REPLICAS:
        reason = "failurePolicy is Fail with one replica: while it restarts, no pod can be created"
        yield create_warning(reason, *_list_scale_commands(facts, deployment))
    else:
        yield from _check_disruption_budgets(facts, deployment)


def _report_no_ready_replica(facts: GateFacts, deployment: GateDeployment) -> CheckResult:
    desired = deployment.spec.replicas
    reason = f"failurePolicy is Fail and 0 of {desired} replicas are ready: no pod can be created outside kube-system"
    if desired == 0:
        return create_failure(
            reason, format_namespaced_kubectl(facts.location, "scale", "deployment/tallygate", "--replicas=1")
        )
    return create_failure(
        reason,
        format_namespaced_kubectl(facts.location, "describe", "pods", "--selector=app.kubernetes.io/component=gate"),
    )


def _list_scale_commands(facts: GateFacts, deployment: GateDeployment) -> tuple[str, ...]:
    """Return a command for a second replica if the ledgers are in the cluster.

    Two replicas with ledgers in memory would each reserve the whole cap.
    """
    if Feature.CLUSTER_LEDGERS not in parse_features(deployment.arguments):
        return ()
    return (format_namespaced_kubectl(facts.location, "scale", "deployment/tallygate", "--replicas=2"),)


def _check_disruption_budgets(facts: GateFacts, deployment: GateDeployment) -> Iterator[CheckResult]:
    if isinstance(facts.disruption_budgets, Unavailable):
        yield create_unknown(f"PodDisruptionBudgets cannot be read: {facts.disruption_budgets.reason}")
        return
    matching = [budget for budget in facts.disruption_budgets if _is_budget_for(budget, deployment)]
    if not matching:
        replicas = deployment.spec.replicas
        reason = f"no PodDisruptionBudget protects the {replicas} replicas: a drain may end all of them at once"
        command = ("create", "poddisruptionbudget", "tallygate", "--min-available=1")
        yield create_warning(
            reason, format_namespaced_kubectl(facts.location, *command, "--selector=app.kubernetes.io/component=gate")
        )
    for budget in matching:
        if budget.status.expected_pods > 0 and budget.status.disruptions_allowed == 0:
            yield create_warning(
                f"the PodDisruptionBudget {budget.metadata.name} allows no disruption: a drain of the node of a "
                "replica never ends"
                if deployment.status.ready_replicas >= deployment.spec.replicas
                else f"{deployment.status.ready_replicas} of {deployment.spec.replicas} replicas are ready, and the "
                f"PodDisruptionBudget {budget.metadata.name} lets none of them go"
            )


def _is_budget_for(budget: GateDisruptionBudget, deployment: GateDeployment) -> bool:
    try:
        return parse_selector(budget.spec.selector).matches(deployment.spec.template.metadata.labels or {})
    except SelectorError:
        return False


def _format_failure_policy(facts: GateFacts) -> str:
    if facts.is_called_by_url:
        return "Fail; the gate is called by URL, and the number of its replicas is unknown"
    deployment = facts.deployment
    ready = deployment.status.ready_replicas if isinstance(deployment, GateDeployment) else 0
    return f"Fail, with {ready} ready replicas and a PodDisruptionBudget"


def _check_exempt_namespaces(facts: GateFacts) -> CheckResult:
    if facts.registration_problem:
        return create_unknown(facts.registration_problem)
    exempt = _list_exempt_namespaces(facts)
    results = [
        create_failure(
            f"{webhook.name} calls the gate for pods in {format_names(selected)} with failurePolicy Fail: "
            "while no gate answers, the pods that would start it again cannot be created",
            _format_selector_patch(facts, kind, configuration, webhook),
        )
        for kind, configuration, webhook in _list_failing_webhooks(facts)
        if is_called_for_pods(webhook)
        and (selected := [namespace.name for namespace in exempt if is_namespace_selected(webhook, namespace)])
    ]
    return combine_results(
        results, create_pass(f"the gate is not called for {' and '.join(namespace.name for namespace in exempt)}")
    )


def _format_selector_patch(facts: GateFacts, kind: str, configuration: WebhookConfiguration, webhook: Webhook) -> str:
    expected = ExpectedConfigurations(facts.location)
    name = (
        webhook.name if expected.find_webhook(kind, webhook.name) else expected.get_configuration(kind).webhooks[0].name
    )
    value = expected.get_field(kind, name, "namespaceSelector")
    return format_webhook_patch(facts.location, kind, configuration, webhook, "namespaceSelector", value)


def _list_exempt_namespaces(facts: GateFacts) -> list[LabelledNamespace]:
    """Return kube-system and, if the gate runs in the cluster, its namespace, with their labels as far as known."""
    namespaces_by_name = (
        {}
        if isinstance(facts.namespaces, Unavailable)
        else {namespace.name: namespace for namespace in facts.namespaces}
    )
    names = [_KUBE_SYSTEM]
    if isinstance(facts.namespaces, Unavailable) or facts.location.namespace in namespaces_by_name:
        names.append(facts.location.namespace)
    return [namespaces_by_name.get(name, LabelledNamespace(name, {})) for name in names]


def _check_lockout(facts: GateFacts) -> CheckResult:
    if facts.registration_problem:
        return create_unknown(facts.registration_problem)
    results = []
    for kind, configuration, webhook in _list_failing_webhooks(facts):
        vital = [str(request) for request in _VITAL_REQUESTS if is_called_for(webhook, request)]
        if vital and not _is_narrowed(facts, kind, webhook):
            reason = (
                f"{webhook.name} has failurePolicy Fail and matches {format_names(vital)}: these requests "
                "fail while no gate answers"
            )
            results.append(create_failure(reason, *_list_unlock_commands(facts, kind, configuration, webhook)))
    return combine_results(
        results, create_pass("nodes, leases and other requests that a restart needs do not wait for the gate")
    )


def _is_narrowed(facts: GateFacts, kind: str, webhook: Webhook) -> bool:
    """Return whether a webhook that is to fail closed has the match conditions that leave vital requests alone."""
    expected = ExpectedConfigurations(facts.location).find_webhook(kind, webhook.name)
    return (
        expected is not None
        and expected.failure_policy == _FAIL_POLICY
        and bool(expected.match_conditions)
        and webhook.match_conditions == expected.match_conditions
        and webhook.rules == expected.rules
    )


def _list_unlock_commands(
    facts: GateFacts, kind: str, configuration: WebhookConfiguration, webhook: Webhook
) -> Sequence[str]:
    expected = ExpectedConfigurations(facts.location)
    expected_webhook = expected.find_webhook(kind, webhook.name)
    if expected_webhook is None or expected_webhook.failure_policy != _FAIL_POLICY:
        return (format_webhook_patch(facts.location, kind, configuration, webhook, "failurePolicy", "Ignore"),)
    name = "rules" if webhook.rules != expected_webhook.rules else "matchConditions"
    value = expected.get_field(kind, webhook.name, name)
    return (format_webhook_patch(facts.location, kind, configuration, webhook, name, value),)


def _check_excluded_namespaces(facts: GateFacts) -> CheckResult:
    if isinstance(facts.namespaces, Unavailable):
        return create_unknown(f"namespaces cannot be listed: {facts.namespaces.reason}")
    if facts.registration_problem or not isinstance(facts.validating, WebhookConfiguration):
        return create_unknown(facts.registration_problem or "the gate's validating configuration cannot be seen")
    configuration = facts.validating
    pod_webhooks = [webhook for webhook in configuration.webhooks if is_called_for_pods(webhook)]
    exempt = {namespace.name for namespace in _list_exempt_namespaces(facts)}
    other_namespaces = [namespace for namespace in facts.namespaces if namespace.name not in exempt]
    excluded = sorted(namespace.name for namespace in other_namespaces if not _is_evaluated(pod_webhooks, namespace))
    if not excluded:
        return create_pass(
            f"all {len(other_namespaces)} namespaces except {' and '.join(sorted(exempt))} are evaluated"
        )
    fix_commands = [
        _format_selector_patch(facts, VALIDATING, configuration, webhook)
        for webhook in pod_webhooks
        if not all(is_namespace_selected(webhook, namespace) for namespace in other_namespaces)
    ]
    return create_warning(
        f"{len(excluded)} of {len(other_namespaces)} namespaces are excluded by namespaceSelector: "
        f"{format_names(excluded)}; no rule and no "
        "cap applies there",
        *fix_commands,
    )


def _is_evaluated(pod_webhooks: Sequence[Webhook], namespace: LabelledNamespace) -> bool:
    """Return whether webhooks are called for creates and for updates of pods in the namespace."""
    return all(
        any(is_called_for(webhook, request) and is_namespace_selected(webhook, namespace) for webhook in pod_webhooks)
        for request in (CREATE_POD, UPDATE_POD)
    )


CHECKS = (
    Check(
        "failure-policy",
        "failurePolicy fits the number of replicas",
        "FAIL: Fail, and no replica is ready; WARN: Ignore, one replica, no PodDisruptionBudget, or one that blocks "
        "evictions",
        _check_failure_policy,
    ),
    Check(
        "exempt",
        "kube-system and the gate's own namespace do not wait for it",
        "FAIL: Fail, and pods there are sent to the gate",
        _check_exempt_namespaces,
    ),
    Check(
        "lockout",
        "Nothing that brings the gate back waits for it",
        "FAIL: a webhook with Fail selects nodes, leases, secrets or the like",
        _check_lockout,
    ),
    Check(
        "excluded-namespaces",
        "No other namespace is excluded",
        "WARN: a namespaceSelector excludes some",
        _check_excluded_namespaces,
    ),
)
