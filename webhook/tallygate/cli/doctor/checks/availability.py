"""Checks of what keeps requests from an answer: the certificate, failure policies, and excluded namespaces."""

import base64
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from urllib.parse import urlsplit

from cryptography import x509

from tallygate.accounting.selectors import SelectorError, parse_selector
from tallygate.admission.self_registration import FAILURE_POLICY_ANNOTATION, is_left_to_gate
from tallygate.admission.webhook_configuration import LIMITS_WEBHOOK
from tallygate.cli.doctor import check_result, webhook_match
from tallygate.cli.doctor.api_types import GateDeployment, GateDisruptionBudget, LabelledNamespace, TlsSecret
from tallygate.cli.doctor.certificate_chain import CertificateChainError, find_distrust, load_certificates
from tallygate.cli.doctor.facts import VALIDATING, GateFacts, ServedCertificate, Unavailable
from tallygate.cli.doctor.permissions import Feature, parse_features
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration
from tallygate_certs.cert_files import CA_FILE, CHAIN_FILE, KEY_FILE

_CERTIFICATE_DIRECTORY = "certs.d/"  # as deploy/README.md calls it
_INJECT_ANNOTATION = "cert-manager.io/inject-ca-from"
WARN_BEFORE = timedelta(days=7)
"""The remaining lifetime of a warning; for a certificate with a short lifetime a tenth of that."""
_LIFETIME_PARTS = 10
_DAY_SECONDS = 86400.0
_TOLERANCE_SECONDS = 2.0  # both times are cut to whole seconds
_MAX_TIMESTAMP = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_RegisteredWebhook = tuple[str, WebhookConfiguration, Webhook]


class _Issuer(Enum):
    """The issuer: a user with `tallygate certs`, the gate itself, or cert-manager."""

    MANUAL = auto()
    GATE = auto()
    CERT_MANAGER = auto()


def find_issuer(facts: GateFacts) -> _Issuer:
    """Return the issuer of the gate's certificate."""
    if isinstance(facts.deployment, GateDeployment) and Feature.CERTIFICATES in parse_features(
        facts.deployment.arguments
    ):
        return _Issuer.GATE
    if any(
        _INJECT_ANNOTATION in (configuration.metadata.annotations or {})
        for _, configuration in facts.list_configurations()
    ):
        return _Issuer.CERT_MANAGER
    return _Issuer.MANUAL


def list_publish_commands(facts: GateFacts) -> tuple[str, ...]:
    """Return commands that publish the gate's CA, or show the state of the controller that does."""
    match find_issuer(facts):
        case _Issuer.GATE:
            return (
                check_result.format_namespaced_kubectl(
                    facts.location, "logs", "--selector=app.kubernetes.io/component=gate", "--tail=50"
                ),
            )
        case _Issuer.CERT_MANAGER:
            return (
                check_result.format_namespaced_kubectl(
                    facts.location, "describe", "certificates.cert-manager.io", "tallygate"
                ),
            )
        case _Issuer.MANUAL:
            return (check_result.format_tallygate(facts.location, "certs", "publish", _CERTIFICATE_DIRECTORY),)


def list_renew_commands(facts: GateFacts) -> tuple[str, ...]:
    """Return commands that issue a new certificate, publish its CA, and store it for the gate."""
    match find_issuer(facts):
        case _Issuer.GATE:
            annotation = "tallygate.dev/renew=certificate"
            return (
                check_result.format_namespaced_kubectl(
                    facts.location, "annotate", "secret", facts.location.secret_name, annotation, "--overwrite"
                ),
            )
        case _Issuer.CERT_MANAGER:  # cert-manager recreates a deleted Secret
            return (
                check_result.format_namespaced_kubectl(facts.location, "delete", "secret", facts.location.secret_name),
            )
        case _Issuer.MANUAL:
            renew_command = f"tallygate certs renew {_CERTIFICATE_DIRECTORY}"
            return (
                renew_command,
                *list_publish_commands(facts),
                *(() if facts.is_called_by_url else (_format_secret_update(facts),)),
            )


def _format_secret_update(facts: GateFacts) -> str:
    """Return a command that updates the Secret with `ca.crt`, which replicas need to trust each other.

    See docs/reference/installation.md, "The relay".
    """
    files = (f"--from-file={_CERTIFICATE_DIRECTORY}{name}" for name in (CHAIN_FILE, KEY_FILE, CA_FILE))
    create_arguments = ("create", "secret", "generic", facts.location.secret_name, "--type=kubernetes.io/tls", *files)
    create_command = check_result.format_namespaced_kubectl(
        facts.location, *create_arguments, "--dry-run=client", "--output=yaml"
    )
    return f"{create_command} | {check_result.format_kubectl(facts.location, 'apply', '--filename=-')}"


def _list_webhooks(facts: GateFacts) -> list[_RegisteredWebhook]:
    return [
        (kind, configuration, webhook)
        for kind, configuration in facts.list_configurations()
        for webhook in configuration.webhooks
    ]


def _load_served_chain(facts: GateFacts) -> list[x509.Certificate] | Unavailable:
    """Return the gate's chain: as it serves it, else from its Secret."""
    if isinstance(facts.served_certificate, Unavailable):
        return facts.served_certificate
    if facts.served_certificate is not None:
        pem: bytes | Unavailable = facts.served_certificate.certificate
    elif facts.secret is None:
        return Unavailable(f"there is no Secret {facts.location.namespace}/{facts.location.secret_name}")
    else:
        pem = facts.secret if isinstance(facts.secret, Unavailable) else facts.secret.data.certificate
    if isinstance(pem, Unavailable):
        return pem
    try:
        return load_certificates(pem)
    except CertificateChainError as error:
        return Unavailable(f"what the gate should serve with is {error}")


@check_result.check(
    "trusted",
    "API servers trust the certificate of the gate",
    "FAIL: a webhook's caBundle is empty, or has not signed the gate's certificate, or not for its name",
)
def check_trust(facts: GateFacts) -> check_result.CheckResult:
    webhooks = _list_webhooks(facts)
    if facts.registration_problem:
        return check_result.create_unknown(facts.registration_problem)
    chain = _load_served_chain(facts)
    if isinstance(chain, Unavailable):
        without_bundle = [webhook.name for _, _, webhook in webhooks if not webhook.client_config.ca_bundle]
        if without_bundle and not facts.is_called_by_url:
            return check_result.create_failure(
                f"no caBundle, so the API server trusts no gate: {check_result.format_names(without_bundle)}",
                *list_publish_commands(facts),
            )
        return check_result.create_unknown(f"the certificate that the gate serves cannot be read: {chain.reason}")
    distrusting = [
        (registered, reason)
        for registered in webhooks
        if (reason := _find_webhook_distrust(facts, registered[2], chain))
    ]
    results = [
        check_result.create_failure(f"{registered[2].name}: {reason}", *_list_fix_commands(facts, registered, chain))
        for registered, reason in distrusting
    ]
    return check_result.combine_results(
        results, check_result.create_pass(f"all {len(webhooks)} webhooks trust the certificate that the gate serves")
    )


def _find_webhook_distrust(facts: GateFacts, webhook: Webhook, chain: list[x509.Certificate]) -> str:
    bundle = webhook.client_config.ca_bundle
    served, is_by_url = facts.served_certificate, bool(webhook.client_config.url)
    if isinstance(served, ServedCertificate) and is_by_url == facts.is_called_by_url and (bundle or is_by_url):
        return served.trust_failures.get(bundle, "")
    if not bundle:
        return "caBundle is empty"
    try:
        trusted = load_certificates(bundle)
    except CertificateChainError as error:
        return f"caBundle is {error}"
    return find_distrust(chain, trusted, _get_host(webhook), facts.now)


def _get_host(webhook: Webhook) -> str:
    service = webhook.client_config.service
    if service:
        return f"{service.name}.{service.namespace}.svc"
    return urlsplit(webhook.client_config.url or "").hostname or ""


def _list_fix_commands(
    facts: GateFacts, registered: _RegisteredWebhook, chain: list[x509.Certificate]
) -> tuple[str, ...]:
    """Return a command that sets a valid bundle of another webhook or of the Secret, else renew or publish commands."""
    kind, configuration, webhook = registered
    bundles = [other_webhook.client_config.ca_bundle for _, _, other_webhook in _list_webhooks(facts)]
    if isinstance(facts.secret, TlsSecret):
        bundles.append(facts.secret.data.ca_bundle)
    for bundle in filter(None, bundles):
        try:
            is_trusted = not find_distrust(chain, load_certificates(bundle), _get_host(webhook), facts.now)
        except CertificateChainError:
            continue
        if is_trusted:
            encoded_bundle = base64.b64encode(bundle).decode()
            return (
                check_result.format_webhook_patch(
                    facts.location, kind, configuration, webhook, "clientConfig/caBundle", encoded_bundle
                ),
            )
    return list_renew_commands(facts) if chain[0].not_valid_after_utc < facts.now else list_publish_commands(facts)


@check_result.check(
    "certificate",
    "The certificate lasts",
    f"FAIL: it has expired, or its authority; WARN: less than {WARN_BEFORE.days} days or a tenth of its life "
    "left, or a "
    "replica serves with another one",
)
def check_certificate(facts: GateFacts) -> check_result.CheckResult:
    chain = _load_served_chain(facts)
    if isinstance(chain, Unavailable):
        return check_result.combine_results(
            [*_check_replica_certificates(facts, chain)],
            check_result.create_unknown(f"the certificate that the gate serves cannot be read: {chain.reason}"),
        )
    certificate = chain[0]
    results = [
        *_check_lifetime(facts, "the certificate", certificate),
        *_check_ca_bundles(facts),
        *_check_replica_certificates(facts, chain),
    ]
    days = (certificate.not_valid_after_utc - facts.now) / timedelta(days=1)
    return check_result.combine_results(
        results, check_result.create_pass(f"{days:.0f} days left, until {certificate.not_valid_after_utc:%Y-%m-%d}")
    )


def _check_ca_bundles(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    """Check the certificate of each bundle that expires last: a bundle may also contain a replaced one."""
    for bundle in {webhook.client_config.ca_bundle for _, _, webhook in _list_webhooks(facts)} - {b""}:
        try:
            longest_lived = max(load_certificates(bundle), key=lambda certificate: certificate.not_valid_after_utc)
        except (CertificateChainError, ValueError):
            continue  # the check `trusted` reports it
        yield from _check_lifetime(facts, "the authority in caBundle", longest_lived)


def _check_lifetime(facts: GateFacts, noun: str, certificate: x509.Certificate) -> Iterator[check_result.CheckResult]:
    remaining = certificate.not_valid_after_utc - facts.now
    until = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    threshold = min(WARN_BEFORE, (certificate.not_valid_after_utc - certificate.not_valid_before_utc) / _LIFETIME_PARTS)
    if remaining < timedelta():
        yield check_result.create_failure(f"{noun} has expired on {until}", *list_renew_commands(facts))
    elif remaining < threshold:
        yield check_result.create_warning(
            f"{noun} expires on {until}, in {_format_remaining(remaining)}", *list_renew_commands(facts)
        )


def _format_remaining(remaining: timedelta) -> str:
    seconds = remaining.total_seconds()
    return f"{seconds / _DAY_SECONDS:.1f} days" if seconds >= _DAY_SECONDS else f"{seconds / 3600:.1f} hours"


def _check_replica_certificates(
    facts: GateFacts, chain: list[x509.Certificate] | Unavailable
) -> Iterator[check_result.CheckResult]:
    """Check the expiry times that the replicas report."""
    if isinstance(facts.replicas, Unavailable):
        return
    for replica in facts.replicas:
        if isinstance(replica.metrics, Unavailable):
            continue
        not_after = replica.metrics.get_value("certificate_not_after_timestamp_seconds")
        if not not_after or not 0 < not_after < _MAX_TIMESTAMP:
            continue
        if not_after < facts.now.timestamp():
            yield check_result.create_failure(
                f"replica {replica.name} serves with a certificate that has expired", *list_renew_commands(facts)
            )
        elif not isinstance(chain, Unavailable) and abs(not_after - _get_not_after(chain)) > _TOLERANCE_SECONDS:
            reason = f"replica {replica.name} serves with another certificate than it should, good until "
            yield check_result.create_warning(
                f"{reason}{datetime.fromtimestamp(not_after, facts.now.tzinfo):%Y-%m-%d}",
                *_list_restart_commands(facts),
            )


def _get_not_after(chain: list[x509.Certificate]) -> float:
    return chain[0].not_valid_after_utc.timestamp()


def _list_restart_commands(facts: GateFacts) -> tuple[str, ...]:
    return (
        ()
        if facts.is_called_by_url
        else (check_result.format_namespaced_kubectl(facts.location, "rollout", "restart", "deployment/tallygate"),)
    )


_FAIL_POLICY = "Fail"
_KUBE_SYSTEM = "kube-system"
_MIN_REPLICAS = 2
_VITAL_REQUESTS = (
    webhook_match.RequestKind("", "nodes", "CREATE", "Cluster"),
    webhook_match.RequestKind("", "nodes/status", "UPDATE", "Cluster"),
    webhook_match.RequestKind("coordination.k8s.io", "leases", "UPDATE", "Namespaced"),
    webhook_match.RequestKind("", "namespaces", "UPDATE", "Cluster"),
    webhook_match.RequestKind("", "endpoints", "UPDATE", "Namespaced"),
    webhook_match.RequestKind("discovery.k8s.io", "endpointslices", "UPDATE", "Namespaced"),
    webhook_match.RequestKind("", "secrets", "UPDATE", "Namespaced"),
    webhook_match.RequestKind("", "configmaps", "UPDATE", "Namespaced"),
    webhook_match.RequestKind("", "serviceaccounts/token", "CREATE", "Namespaced"),
    webhook_match.RequestKind("", "pods/status", "UPDATE", "Namespaced"),
    webhook_match.RequestKind("", "pods/binding", "CREATE", "Namespaced"),
    webhook_match.RequestKind("", "pods/eviction", "CREATE", "Namespaced"),
    webhook_match.RequestKind("", "pods", "DELETE", "Namespaced"),
    webhook_match.RequestKind("apiextensions.k8s.io", "customresourcedefinitions", "UPDATE", "Cluster"),
    webhook_match.RequestKind("certificates.k8s.io", "certificatesigningrequests", "CREATE", "Cluster"),
    webhook_match.RequestKind("rbac.authorization.k8s.io", "clusterroles", "UPDATE", "Cluster"),
)
"""The requests that a cluster needs to recover while no gate responds. The gate evaluates none of them."""


def _list_failing_webhooks(facts: GateFacts) -> Iterator[_RegisteredWebhook]:
    """Yield the webhooks whose failure rejects a request."""
    for kind, configuration in facts.list_configurations():
        for webhook in configuration.webhooks:
            if webhook.failure_policy == _FAIL_POLICY:
                yield kind, configuration, webhook


@check_result.check(
    "failure-policy",
    "failurePolicy fits the number of replicas",
    "FAIL: Fail, and no replica is ready; WARN: Ignore, one replica, no PodDisruptionBudget, or one that blocks "
    "evictions",
)
def check_failure_policy(facts: GateFacts) -> check_result.CheckResult:
    if facts.registration_problem:
        return check_result.create_unknown(facts.registration_problem)
    results = list(_find_open_webhooks(facts))
    if any(webhook_match.is_called_for_pods(webhook) for _, _, webhook in _list_failing_webhooks(facts)):
        results += _check_availability(facts)
    return check_result.combine_results(results, check_result.create_pass(_format_failure_policy(facts)))


def _find_open_webhooks(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    for kind, configuration in facts.list_configurations():
        for webhook in configuration.webhooks:
            if webhook_match.is_called_for_pods(webhook) and webhook.failure_policy != _FAIL_POLICY:
                reason = f"{webhook.name} has failurePolicy Ignore: all pods are accepted while no gate answers"
                yield check_result.create_warning(reason, _format_policy_fix(facts, kind, configuration, webhook))
            elif webhook.name == LIMITS_WEBHOOK and webhook.failure_policy != _FAIL_POLICY:
                reason = (
                    f"{webhook.name} has failurePolicy {webhook.failure_policy}: while no gate answers, annotations "
                    "that set limits are accepted from each user who may update namespaces"
                )
                patch = check_result.format_webhook_patch(
                    facts.location, kind, configuration, webhook, "failurePolicy", _FAIL_POLICY
                )
                yield check_result.create_warning(reason, patch)


def _format_policy_fix(facts: GateFacts, kind: str, configuration: WebhookConfiguration, webhook: Webhook) -> str:
    """Return a command that sets the failure policy, or asks the gate to, which would restore its own otherwise."""
    if is_left_to_gate(configuration):
        return check_result.format_kubectl(
            facts.location,
            "annotate",
            kind,
            configuration.name,
            f"{FAILURE_POLICY_ANNOTATION}={_FAIL_POLICY}",
            "--overwrite",
        )
    return check_result.format_webhook_patch(
        facts.location, kind, configuration, webhook, "failurePolicy", _FAIL_POLICY
    )


def _check_availability(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    """Check the availability that failurePolicy Fail requires."""
    if facts.is_called_by_url:
        return
    deployment = facts.deployment
    if isinstance(deployment, Unavailable):
        yield check_result.create_unknown(f"the Deployment cannot be read: {deployment.reason}")
    elif deployment is None:
        yield check_result.create_failure(
            f"failurePolicy is Fail, and there is no Deployment {facts.location.namespace}/tallygate to answer"
        )
    elif deployment.status.ready_replicas == 0:
        yield _report_no_ready_replica(facts, deployment)
    elif deployment.spec.replicas < _MIN_REPLICAS:
        reason = "failurePolicy is Fail with one replica: while it restarts, no pod can be created"
        yield check_result.create_warning(reason, *_list_scale_commands(facts, deployment))
    else:
        yield from _check_disruption_budgets(facts, deployment)


def _report_no_ready_replica(facts: GateFacts, deployment: GateDeployment) -> check_result.CheckResult:
    desired = deployment.spec.replicas
    reason = f"failurePolicy is Fail and 0 of {desired} replicas are ready: no pod can be created outside kube-system"
    if desired == 0:
        return check_result.create_failure(
            reason,
            check_result.format_namespaced_kubectl(facts.location, "scale", "deployment/tallygate", "--replicas=1"),
        )
    return check_result.create_failure(
        reason,
        check_result.format_namespaced_kubectl(
            facts.location, "describe", "pods", "--selector=app.kubernetes.io/component=gate"
        ),
    )


def _list_scale_commands(facts: GateFacts, deployment: GateDeployment) -> tuple[str, ...]:
    """Return a command for a second replica if the ledgers are in the cluster.

    Two replicas with ledgers in memory would each reserve the whole cap.
    """
    if Feature.CLUSTER_LEDGERS not in parse_features(deployment.arguments):
        return ()
    return (check_result.format_namespaced_kubectl(facts.location, "scale", "deployment/tallygate", "--replicas=2"),)


def _check_disruption_budgets(facts: GateFacts, deployment: GateDeployment) -> Iterator[check_result.CheckResult]:
    if isinstance(facts.disruption_budgets, Unavailable):
        yield check_result.create_unknown(f"PodDisruptionBudgets cannot be read: {facts.disruption_budgets.reason}")
        return
    matching = [budget for budget in facts.disruption_budgets if _is_budget_for(budget, deployment)]
    if not matching:
        replicas = deployment.spec.replicas
        reason = f"no PodDisruptionBudget protects the {replicas} replicas: a drain may end all of them at once"
        command = ("create", "poddisruptionbudget", "tallygate", "--min-available=1")
        yield check_result.create_warning(
            reason,
            check_result.format_namespaced_kubectl(
                facts.location, *command, "--selector=app.kubernetes.io/component=gate"
            ),
        )
    for budget in matching:
        if budget.status.expected_pods > 0 and budget.status.disruptions_allowed == 0:
            yield check_result.create_warning(
                f"the PodDisruptionBudget {budget.metadata.name} allows no disruption: a drain of the node of a "
                "replica never ends"
                if deployment.status.ready_replicas >= deployment.spec.replicas
                else f"{deployment.status.ready_replicas} of {deployment.spec.replicas} replicas are ready, and the "
                f"PodDisruptionBudget {budget.metadata.name} allows no disruption"
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


@check_result.check(
    "exempt",
    "kube-system and the gate's own namespace do not wait for it",
    "FAIL: Fail, and pods there are sent to the gate",
)
def check_exempt_namespaces(facts: GateFacts) -> check_result.CheckResult:
    if facts.registration_problem:
        return check_result.create_unknown(facts.registration_problem)
    exempt = _list_exempt_namespaces(facts)
    results = [
        check_result.create_failure(
            f"{webhook.name} calls the gate for pods in {check_result.format_names(selected)} with failurePolicy Fail: "
            "while no gate answers, the pods that would start it again cannot be created",
            _format_selector_patch(facts, kind, configuration, webhook),
        )
        for kind, configuration, webhook in _list_failing_webhooks(facts)
        if webhook_match.is_called_for_pods(webhook)
        and (
            selected := [
                namespace.name for namespace in exempt if webhook_match.is_namespace_selected(webhook, namespace)
            ]
        )
    ]
    return check_result.combine_results(
        results,
        check_result.create_pass(f"the gate is not called for {' and '.join(namespace.name for namespace in exempt)}"),
    )


def _format_selector_patch(facts: GateFacts, kind: str, configuration: WebhookConfiguration, webhook: Webhook) -> str:
    expected = webhook_match.ExpectedConfigurations(facts.location)
    name = (
        webhook.name if expected.find_webhook(kind, webhook.name) else expected.get_configuration(kind).webhooks[0].name
    )
    value = expected.get_field(kind, name, "namespaceSelector")
    return check_result.format_webhook_patch(facts.location, kind, configuration, webhook, "namespaceSelector", value)


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


@check_result.check(
    "lockout",
    "Nothing that brings the gate back waits for it",
    "FAIL: a webhook with Fail selects nodes, leases, secrets or the like",
)
def check_lockout(facts: GateFacts) -> check_result.CheckResult:
    if facts.registration_problem:
        return check_result.create_unknown(facts.registration_problem)
    results = []
    for kind, configuration, webhook in _list_failing_webhooks(facts):
        vital = [str(request) for request in _VITAL_REQUESTS if webhook_match.is_called_for(webhook, request)]
        if vital and not _is_narrowed(facts, kind, webhook):
            reason = (
                f"{webhook.name} has failurePolicy Fail and matches {check_result.format_names(vital)}: these requests "
                "fail while no gate answers"
            )
            results.append(
                check_result.create_failure(reason, *_list_unlock_commands(facts, kind, configuration, webhook))
            )
    return check_result.combine_results(
        results,
        check_result.create_pass("nodes, leases and other requests that a restart needs do not wait for the gate"),
    )


def _is_narrowed(facts: GateFacts, kind: str, webhook: Webhook) -> bool:
    """Return whether a webhook that is to fail closed has the match conditions that leave vital requests alone."""
    expected = webhook_match.ExpectedConfigurations(facts.location).find_webhook(kind, webhook.name)
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
    expected = webhook_match.ExpectedConfigurations(facts.location)
    expected_webhook = expected.find_webhook(kind, webhook.name)
    if expected_webhook is None or expected_webhook.failure_policy != _FAIL_POLICY:
        return (
            check_result.format_webhook_patch(facts.location, kind, configuration, webhook, "failurePolicy", "Ignore"),
        )
    name = "rules" if webhook.rules != expected_webhook.rules else "matchConditions"
    value = expected.get_field(kind, webhook.name, name)
    return (check_result.format_webhook_patch(facts.location, kind, configuration, webhook, name, value),)


@check_result.check("excluded-namespaces", "No other namespace is excluded", "WARN: a namespaceSelector excludes some")
def check_excluded_namespaces(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.namespaces, Unavailable):
        return check_result.create_unknown(f"namespaces cannot be listed: {facts.namespaces.reason}")
    if facts.registration_problem or not isinstance(facts.validating, WebhookConfiguration):
        return check_result.create_unknown(
            facts.registration_problem or "the gate's validating configuration cannot be seen"
        )
    configuration = facts.validating
    pod_webhooks = webhook_match.list_pod_webhooks(configuration)
    exempt = {namespace.name for namespace in _list_exempt_namespaces(facts)}
    other_namespaces = [namespace for namespace in facts.namespaces if namespace.name not in exempt]
    excluded = sorted(namespace.name for namespace in other_namespaces if not _is_evaluated(pod_webhooks, namespace))
    if not excluded:
        return check_result.create_pass(
            f"all {len(other_namespaces)} namespaces except {' and '.join(sorted(exempt))} are evaluated"
        )
    fix_commands = [
        _format_selector_patch(facts, VALIDATING, configuration, webhook)
        for webhook in pod_webhooks
        if not all(webhook_match.is_namespace_selected(webhook, namespace) for namespace in other_namespaces)
    ]
    return check_result.create_warning(
        f"{len(excluded)} of {len(other_namespaces)} namespaces are excluded by namespaceSelector: "
        f"{check_result.format_names(excluded)}; no rule and no "
        "cap applies there",
        *fix_commands,
    )


def _is_evaluated(pod_webhooks: Sequence[Webhook], namespace: LabelledNamespace) -> bool:
    """Return whether webhooks are called for creates and for updates of pods in the namespace."""
    return all(
        any(
            webhook_match.is_called_for(webhook, request) and webhook_match.is_namespace_selected(webhook, namespace)
            for webhook in pod_webhooks
        )
        for request in (webhook_match.CREATE_POD, webhook_match.UPDATE_POD)
    )
