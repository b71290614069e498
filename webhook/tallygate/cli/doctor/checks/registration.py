"""Checks of the registration: which requests API servers send to the gate, by which they reach it, and who else may."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tallygate.accounting.selectors import SelectorError, parse_selector
from tallygate.admission.match_conditions import (
    MAX_LABEL_WEBHOOKS,
    MatchConditions,
    compute_digest,
    concerns_every_pod,
    list_policies,
)
from tallygate.admission.request import Phase
from tallygate.admission.self_registration import EVERYTHING, RegistrationState, combine_asked, is_left_to_gate
from tallygate.admission.webhook_configuration import (
    CONFIGURATION_NAME,
    POLICIES_WEBHOOK,
    is_policy_condition,
    list_own_conditions,
)
from tallygate.cli.doctor import asked_pods, check_result, webhook_match
from tallygate.cli.doctor.api_types import GateNetworkPolicy
from tallygate.cli.doctor.facts import MUTATING, VALIDATING, DryRun, GateFacts, Unavailable, is_unregistered
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration
from tallygate.policy.model import PolicySet

MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 3, 10
"""The harmless range of a webhook's timeout in seconds. A write of a ledger in a busy cluster can take 2 s, and a
request waits for the whole timeout if the gate hangs.
"""
_PHASES = {MUTATING: Phase.MUTATING, VALIDATING: Phase.VALIDATING}


@check_result.check(
    "registered",
    "Both webhook configurations are there",
    "FAIL: one is missing, has no webhooks yet, or does not select pods",
)
def check_registered(facts: GateFacts) -> check_result.CheckResult:
    results = []
    for kind, configuration in ((MUTATING, facts.mutating), (VALIDATING, facts.validating)):
        if isinstance(configuration, Unavailable):
            results.append(
                check_result.create_unknown(f"the {kind} {CONFIGURATION_NAME} cannot be read: {configuration.reason}")
            )
        elif configuration is None:
            consequence = (
                "requests are accepted without evaluation" if kind == VALIDATING else "no missing limit is filled in"
            )
            results.append(
                check_result.create_failure(
                    f"there is no {kind} {CONFIGURATION_NAME}: {consequence}", _format_register(facts)
                )
            )
        elif is_unregistered(configuration):
            results.append(_report_unregistered(facts, kind))
        elif not webhook_match.has_webhook_for(configuration, webhook_match.CREATE_POD):
            results.append(
                check_result.create_failure(
                    f"the {kind} {CONFIGURATION_NAME} selects no pods",
                    *_list_rule_fixes(facts, kind, configuration),
                )
            )
    return check_result.combine_results(
        results,
        check_result.create_pass(f"both are there: {', '.join(kind for kind, _ in facts.list_configurations())}"),
    )


def _report_unregistered(facts: GateFacts, kind: str) -> check_result.CheckResult:
    """Report the reason of the replica that would register the gate: its readiness check `registration`."""
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    details = [detail for replica in replicas if (detail := replica.find_check("registration"))]
    active = [detail for detail in details if detail.get("state") == RegistrationState.WAITING]
    reasons = [str(detail.get("reason") or "no reason is known") for detail in active or details]
    reason = f"the {kind} {CONFIGURATION_NAME} has no webhooks yet: the gate has not registered itself"
    if reasons:
        return check_result.create_failure(f"{reason}: {reasons[0]}")
    if isinstance(facts.replicas, Unavailable) or not facts.replicas:
        remedy = check_result.format_namespaced_kubectl(
            facts.location, "describe", "pods", "--selector=app.kubernetes.io/component=gate"
        )
        return check_result.create_failure(f"{reason}, and no replica can be asked why", remedy)
    return check_result.create_failure(
        f"{reason}: it has no access to the API server",
        check_result.format_tallygate(facts.location, "certs", "publish", "certs.d/"),
    )


@check_result.check(
    "rules",
    "They have every kind of request that the gate evaluates, resize and status included",
    "FAIL: one kind is not sent",
)
def check_rules(facts: GateFacts) -> check_result.CheckResult:
    results = []
    expected = webhook_match.ExpectedConfigurations(facts.location)
    for kind, configuration in facts.list_configurations():
        missing = [
            str(request)
            for request in _list_all_request_kinds(expected.get_configuration(kind))
            if not webhook_match.has_webhook_for(configuration, request)
        ]
        if missing:
            results.append(
                check_result.create_failure(
                    f"in the {_PHASES[kind]} phase the API server does not ask about "
                    f"{check_result.format_names(missing)}",
                    *_list_rule_fixes(facts, kind, configuration),
                )
            )
    counts_text = ", ".join(
        f"{len(list(_list_all_request_kinds(expected.get_configuration(kind))))} in {kind}s" for kind in _PHASES
    )
    return _require_registration(
        facts,
        check_result.combine_results(
            results, check_result.create_pass(f"every kind of request that the gate evaluates is sent: {counts_text}")
        ),
    )


@check_result.check(
    "conditions",
    "No label of an object and no condition lets a request past",
    "FAIL: an objectSelector; WARN: conditions that the gate does not register, matchPolicy Exact",
)
def check_conditions(facts: GateFacts) -> check_result.CheckResult:
    results = [
        result
        for kind, configuration in facts.list_configurations()
        for webhook in configuration.webhooks
        for result in _find_bypasses(facts, kind, configuration, webhook)
    ]
    return _require_registration(
        facts,
        check_result.combine_results(
            results, check_result.create_pass("nothing that a tenant writes decides whether the gate is asked")
        ),
    )


def _find_bypasses(
    facts: GateFacts, kind: str, configuration: WebhookConfiguration, webhook: Webhook
) -> Iterator[check_result.CheckResult]:
    def format_fix(field: str, value: object) -> str:
        return check_result.format_webhook_patch(facts.location, kind, configuration, webhook, field, value)

    if webhook_match.is_restrictive(webhook.object_selector) and webhook.name != POLICIES_WEBHOOK:
        reason = f"{webhook.name} has an objectSelector: who labels his object gets past it"
        yield check_result.create_failure(reason, format_fix("objectSelector", {}))
    if webhook.match_policy != "Equivalent":
        reason = f"{webhook.name} has matchPolicy {webhook.match_policy}: another version of an API gets past it"
        yield check_result.create_warning(reason, format_fix("matchPolicy", "Equivalent"))
    resources = webhook_match.list_registered_resources(configuration, facts.workloads.known)
    conditions = None if isinstance(facts.policies, Unavailable) else MatchConditions(facts.policies)
    expected = webhook_match.ExpectedConfigurations(facts.location, resources, conditions=conditions)
    expected_webhook = expected.find_webhook(kind, webhook.name)
    if expected_webhook is not None and (unexpected := _format_unexpected(configuration, expected_webhook, webhook)):
        reason = (
            f"{webhook.name} has match conditions that the gate does not register and that may exclude requests: "
            f"{unexpected}"
        )
        yield check_result.create_warning(
            reason, format_fix("matchConditions", expected.get_field(kind, webhook.name, "matchConditions") or [])
        )


def _format_unexpected(configuration: WebhookConfiguration, expected: Webhook, webhook: Webhook) -> str:
    """Return the names of the conditions that the gate does not register; it keeps those of its policies itself."""
    is_left = is_left_to_gate(configuration)
    registered = (*expected.match_conditions, *list_own_conditions(expected))
    return check_result.format_names(
        [
            condition.name
            for condition in webhook.match_conditions
            if condition not in registered and not (is_left and is_policy_condition(condition.name))
        ]
    )


@check_result.check(
    "asked",
    "The gate is asked about what its policies concern, and about nothing else",
    "WARN: it is not asked about a policy yet",
)
def check_asked(facts: GateFacts) -> check_result.CheckResult:
    """Check that the registration has the conditions of all policies.

    Name those that concern every pod, and those whose selectors of labels have no webhooks. Of the present pods, the
    reason has the share about which the API server would ask.
    """
    if facts.registration_problem:
        return check_result.create_unknown(facts.registration_problem)
    configurations = [configuration for _, configuration in facts.list_configurations()]
    digests = combine_asked(filter(is_left_to_gate, configurations))
    if EVERYTHING in digests:
        return _report_share(facts, "about every pod and workload: no condition of a policy is registered")
    if isinstance(facts.policies, Unavailable):
        return check_result.create_unknown(f"the policies cannot be read: {facts.policies.reason}")
    policies = list_policies(facts.policies)
    waiting = sorted(policy.name for policy in policies if compute_digest(policy) not in digests)
    if waiting:
        reason = f"it is not asked about {check_result.format_names(waiting)} yet: the leader registers it"
        return check_result.create_warning(reason, _format_register(facts))
    wide = sorted(policy.name for policy in policies if concerns_every_pod(policy))
    reasons = [
        f"about every pod in the namespaces of {check_result.format_names(wide)}: whatever a pod requests matters there"
        if wide
        else "of pods, about those with a resource that a policy names, or with claims"
    ]
    unselected = sorted(MatchConditions(facts.policies).unselected)
    if unselected:
        reasons.append(
            f"for {check_result.format_names(unselected)} in namespaces with any labels: the selectors of all policies "
            f"need more than {MAX_LABEL_WEBHOOKS} webhooks"
        )
    return _report_share(facts, "; ".join(reasons))


def _report_share(facts: GateFacts, reason: str) -> check_result.CheckResult:
    """Return PASS with the reason, and the share of the pods that the registration concerns, if that is known."""
    if isinstance(facts.pod_groups, Unavailable) or not isinstance(facts.validating, WebhookConfiguration):
        return check_result.create_pass(reason)
    policies = PolicySet() if isinstance(facts.policies, Unavailable) else facts.policies
    share = asked_pods.compute_share(facts, facts.validating, facts.pod_groups, policies)
    if not share.pods:
        return check_result.create_pass(reason)
    text = f"{reason}. Of {share.pods} present pods that is {share.asked}, {share.asked / share.pods:.0%}"
    if share.policies:
        counts = check_result.format_names([f"{name} {count}" for name, count in share.policies.items()])
        text += f": {'at least ' if share.is_sampled else ''}{counts}"
    return check_result.create_pass(text)


@check_result.check(
    "timeouts",
    "The time that is given fits",
    f"WARN: less than {MIN_TIMEOUT_SECONDS} s or more than {MAX_TIMEOUT_SECONDS} s",
)
def check_timeouts(facts: GateFacts) -> check_result.CheckResult:
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
                check_result.create_warning(
                    reason,
                    check_result.format_webhook_patch(
                        facts.location, kind, configuration, webhook, "timeoutSeconds", 5
                    ),
                )
            )
    timeouts = sorted(
        {
            webhook.timeout_seconds
            for _, configuration in facts.list_configurations()
            for webhook in configuration.webhooks
        }
    )
    return _require_registration(
        facts, check_result.combine_results(results, check_result.create_pass(f"{', '.join(map(str, timeouts))} s"))
    )


@check_result.check(
    "reinvocation",
    "The gate is called again after a change by another webhook",
    "WARN: other webhooks change pods after the gate, and reinvocationPolicy is Never",
)
def check_reinvocation(facts: GateFacts) -> check_result.CheckResult:
    """Check the mutating webhooks after the gate's.

    The API server calls them in the order of their configurations' names (apiserver, mutating_webhook_manager.go).
    """
    if facts.registration_problem or not isinstance(facts.mutating, WebhookConfiguration):
        return check_result.create_unknown(
            facts.registration_problem or "the gate's own mutating configuration cannot be seen"
        )
    if isinstance(facts.other_configurations, Unavailable):
        return check_result.create_unknown(f"other configurations cannot be read: {facts.other_configurations.reason}")
    own_configuration = facts.mutating
    later_names = sorted(
        configuration.name
        for configuration in facts.other_configurations
        if configuration.name > own_configuration.name
        and webhook_match.has_webhook_for(configuration, webhook_match.CREATE_POD)
    )
    if not later_names:
        return check_result.create_pass("no other mutating webhook sees pods after the gate")
    results = [
        check_result.create_warning(
            f"{check_result.format_names(later_names)} may change pods after {webhook.name}, which is not called again "
            "(reinvocationPolicy "
            "Never): what is then missing is refused instead of filled in",
            check_result.format_webhook_patch(
                facts.location, MUTATING, own_configuration, webhook, "reinvocationPolicy", "IfNeeded"
            ),
        )
        for webhook in own_configuration.webhooks
        if webhook_match.is_called_for_pods(webhook) and webhook.reinvocation_policy != "IfNeeded"
    ]
    return check_result.combine_results(
        results,
        check_result.create_pass(
            f"{check_result.format_names(later_names)} may change pods after the gate, which is then asked again"
        ),
    )


def _require_registration(facts: GateFacts, result: check_result.CheckResult) -> check_result.CheckResult:
    return check_result.create_unknown(facts.registration_problem) if facts.registration_problem else result


def _list_all_request_kinds(configuration: WebhookConfiguration) -> Iterator[webhook_match.RequestKind]:
    """Yield the kinds of requests that the gate evaluates; the check `stored-policies` is about ConfigMaps."""
    for webhook in (webhook for webhook in configuration.webhooks if webhook.name != POLICIES_WEBHOOK):
        for rule in webhook.rules:
            yield from webhook_match.list_request_kinds(rule)


def _list_rule_fixes(facts: GateFacts, kind: str, configuration: WebhookConfiguration) -> Iterator[str]:
    """Yield commands that restore the registered rules of every webhook."""
    expected = webhook_match.ExpectedConfigurations(facts.location)
    for webhook in configuration.webhooks:
        expected_webhook = expected.find_webhook(kind, webhook.name)
        if expected_webhook is not None and expected_webhook.rules != webhook.rules:
            yield check_result.format_webhook_patch(
                facts.location, kind, configuration, webhook, "rules", expected.get_field(kind, webhook.name, "rules")
            )
    names = {webhook.name for webhook in configuration.webhooks}
    if any(webhook.name not in names for webhook in expected.get_configuration(kind).webhooks):
        yield _format_register(facts)


def _format_register(facts: GateFacts) -> str:
    """Return a command that applies the overlay of the user (deploy/README.md)."""
    return check_result.format_kubectl(facts.location, "apply", "-k", "deploy/kustomize/mine")


_CREATED = 201
_MAX_MESSAGE_CHARACTERS = 300
# apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go and pkg/admission/plugin/webhook/errors/statuserror.go
_NOT_CALLED = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request')


@check_result.check(
    "reachable",
    "The API server reaches the gate, and the gate evaluates",
    "FAIL: the API server cannot call it; UNKNOWN: with failurePolicy Ignore it would not report it",
)
def check_reachable(facts: GateFacts) -> check_result.CheckResult:
    if facts.registration_problem:
        return check_result.create_unknown(facts.registration_problem)
    names = {webhook.name for _, configuration in facts.list_configurations() for webhook in configuration.webhooks}
    if isinstance(facts.dry_runs, Unavailable):
        return check_result.create_unknown(f"nothing could be tried: {facts.dry_runs.reason}")
    for dry_run in facts.dry_runs:
        webhook = _NOT_CALLED.search(dry_run.message)
        if webhook and webhook[1] in names:
            return check_result.create_failure(
                f"the API server cannot ask the gate: {_shorten(dry_run.message)}",
                *_list_inspect_commands(facts, dry_run.message),
            )
    proofs = [dry_run for dry_run in facts.dry_runs if _is_proof(facts, dry_run, names)]
    if proofs:
        return check_result.create_pass("; ".join(_format_proof(proof) for proof in proofs))
    return check_result.create_unknown("; ".join(_format_inconclusive(run) for run in facts.dry_runs))


def _is_proof(facts: GateFacts, dry_run: DryRun, names: set[str]) -> bool:
    """Return whether only a gate that responded can have caused this result.

    A pod that is stored shows nothing where no policy may concern it.
    """
    denied = _DENIED.search(dry_run.message)
    if denied:
        return denied[1] in names
    failing_webhooks = [
        webhook
        for _, configuration in facts.list_configurations()
        for webhook in configuration.webhooks
        if webhook_match.is_called_for(webhook, webhook_match.CREATE_POD)
        and webhook.failure_policy == "Fail"
        and not any(is_policy_condition(condition.name) for condition in webhook.match_conditions)
    ]
    return dry_run.status == _CREATED and bool(failing_webhooks)


def _format_proof(dry_run: DryRun) -> str:
    if dry_run.status == _CREATED:
        return f"dry run: pod {dry_run.pod} would be accepted in {dry_run.namespace}"
    return f"dry run: pod {dry_run.pod} was rejected by the gate, as expected"


def _format_inconclusive(dry_run: DryRun) -> str:
    if dry_run.status == _CREATED:
        return f"pod {dry_run.pod} would be accepted, as without a gate: failurePolicy Ignore, or no policy concerns it"
    return f"pod {dry_run.pod} was rejected by another check, with {dry_run.status}: {_shorten(dry_run.message)}"


def _list_inspect_commands(facts: GateFacts, message: str) -> tuple[str, ...]:
    if "x509" in message:
        return ()  # the check `trusted` has the fix commands
    if facts.is_called_by_url:
        return ()
    return (
        check_result.format_namespaced_kubectl(
            facts.location, "get", "deployment,pods,endpointslices", "--selector=app.kubernetes.io/name=tallygate"
        ),
    )


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE_CHARACTERS else f"{line[:_MAX_MESSAGE_CHARACTERS]} …"


_ARGUMENTS: Final = {"--client-ca-file": "client certificates", "--token-file": "a token in the path"}
_INGRESS: Final = "Ingress"
_MONITOR_PORTS: Final = frozenset({"monitor", 9090})


@check_result.check(
    "callers",
    "Clients that may send reviews are limited",
    "WARN: neither client certificates nor a token nor a NetworkPolicy limits them; UNKNOWN: the Deployment or the "
    "NetworkPolicies cannot be read. Settings in the environment or in a file are not read",
)
def check_callers(facts: GateFacts) -> check_result.CheckResult:
    deployment = facts.deployment
    if isinstance(deployment, Unavailable):
        return check_result.create_unknown(f"the Deployment cannot be read: {deployment.reason}")
    if deployment is None:
        return check_result.create_unknown("there is no Deployment of the gate, so its arguments are unknown")
    guards = [noun for name, noun in _ARGUMENTS.items() if _has_argument(deployment.arguments, name)]
    policies = list(_list_network_policies(facts, deployment.spec.template.metadata.labels or {}))
    names = check_result.format_names([policy.metadata.name or "" for policy in policies])
    if policies and not any(map(_is_open, policies)):
        guards.append(f"the NetworkPolicy {names}")
    if guards:
        return check_result.create_pass(f"clients of the port of reviews are limited by {' and '.join(guards)}")
    if isinstance(facts.network_policies, Unavailable):
        return check_result.create_unknown(f"NetworkPolicies cannot be listed: {facts.network_policies.reason}")
    remark = f"; the NetworkPolicy {names} accepts it from every address" if policies else ""
    return check_result.create_warning(
        "every pod of the cluster can send reviews, and reserve amounts of any cap by them: use client certificates, a "
        f"token in the path or a NetworkPolicy (docs/operate/security.md, Who may call){remark}"
    )


def _is_open(policy: GateNetworkPolicy) -> bool:
    """Return whether a rule accepts every sender at a port that is not the monitor port."""
    return any(
        not rule.senders and (not rule.ports or any(port.port not in _MONITOR_PORTS for port in rule.ports))
        for rule in policy.spec.ingress
    )


def _has_argument(arguments: tuple[str, ...], name: str) -> bool:
    return any(argument.startswith(f"{name}=") and len(argument) > len(name) + 1 for argument in arguments)


def _list_network_policies(facts: GateFacts, labels: Mapping[str, str]) -> Iterator[GateNetworkPolicy]:
    """Yield the NetworkPolicies that limit the ingress of pods with these labels.

    An API server adds `policyTypes` where a manifest has none, always with Ingress (pkg/apis/networking/v1/defaults.go,
    v1.36).
    """
    for policy in () if isinstance(facts.network_policies, Unavailable) else facts.network_policies:
        try:
            is_selected = parse_selector(policy.spec.pod_selector).matches(labels)
        except SelectorError:
            continue
        if is_selected and _INGRESS in policy.spec.policy_types:
            yield policy
