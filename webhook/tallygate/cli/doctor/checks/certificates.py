"""Checks of the gate's certificate: its trust by the callers and its remaining lifetime.

The fix commands depend on the issuer of the certificate.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from urllib.parse import urlsplit

from cryptography import x509

from tallygate.cli.doctor.api_types import GateDeployment, TlsSecret, Webhook, WebhookConfiguration
from tallygate.cli.doctor.certificate_chain import CertificateChainError, find_distrust, load_certificates
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
from tallygate.cli.doctor.facts import GateFacts, ServedCertificate, Unavailable
from tallygate.cli.doctor.permissions import Feature, parse_features
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
                format_namespaced_kubectl(
                    facts.location, "logs", "--selector=app.kubernetes.io/component=gate", "--tail=50"
                ),
            )
        case _Issuer.CERT_MANAGER:
            return (format_namespaced_kubectl(facts.location, "describe", "certificates.cert-manager.io", "tallygate"),)
        case _Issuer.MANUAL:
            return (format_tallygate(facts.location, "certs", "publish", _CERTIFICATE_DIRECTORY),)


def list_renew_commands(facts: GateFacts) -> tuple[str, ...]:
    """Return commands that issue a new certificate, publish its CA, and store it for the gate."""
    match find_issuer(facts):
        case _Issuer.GATE:
            annotation = "tallygate.dev/renew=certificate"
            return (
                format_namespaced_kubectl(
                    facts.location, "annotate", "secret", facts.location.secret_name, annotation, "--overwrite"
                ),
            )
        case _Issuer.CERT_MANAGER:  # cert-manager recreates a deleted Secret
            return (format_namespaced_kubectl(facts.location, "delete", "secret", facts.location.secret_name),)
        case _Issuer.MANUAL:
            renew_command = f"tallygate certs renew {_CERTIFICATE_DIRECTORY}"
            return (
                renew_command,
                *list_publish_commands(facts),
                *(() if facts.is_called_by_url else (_format_secret_update(facts),)),
            )


def _format_secret_update(facts: GateFacts) -> str:
    """Return a command that updates the Secret with `ca.crt`, which replicas need to trust each other.

    See docs/operate/install.md, "The relay".
    """
    files = (f"--from-file={_CERTIFICATE_DIRECTORY}{name}" for name in (CHAIN_FILE, KEY_FILE, CA_FILE))
    create_arguments = ("create", "secret", "generic", facts.location.secret_name, "--type=kubernetes.io/tls", *files)
    create_command = format_namespaced_kubectl(facts.location, *create_arguments, "--dry-run=client", "--output=yaml")
    return f"{create_command} | {format_kubectl(facts.location, 'apply', '--filename=-')}"


def _list_webhooks(facts: GateFacts) -> list[_RegisteredWebhook]:
    return [
        (kind, configuration, webhook)
        for kind, configuration in facts.list_configurations()
        for webhook in configuration.webhooks
    ]


def _load_served_chain(facts: GateFacts) -> list[x509.Certificate] | Unavailable:
    """Return the gate's chain: as served at its URL, else from its Secret."""
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


def _check_trust(facts: GateFacts) -> CheckResult:
    webhooks = _list_webhooks(facts)
    if facts.registration_problem:
        return create_unknown(facts.registration_problem)
    chain = _load_served_chain(facts)
    if isinstance(chain, Unavailable):
        without_bundle = [webhook.name for _, _, webhook in webhooks if not webhook.client_config.ca_bundle]
        if without_bundle and not facts.is_called_by_url:
            return create_failure(
                f"no caBundle, so the API server trusts no gate: {format_names(without_bundle)}",
                *list_publish_commands(facts),
            )
        return create_unknown(f"the certificate that the gate serves cannot be read: {chain.reason}")
    distrusting = [
        (registered, reason)
        for registered in webhooks
        if (reason := _find_webhook_distrust(facts, registered[2], chain))
    ]
    results = [
        create_failure(f"{each[2].name}: {why}", *_list_fix_commands(facts, each, chain)) for each, why in distrusting
    ]
    return combine_results(
        results, create_pass(f"all {len(webhooks)} webhooks trust the certificate that the gate serves")
    )


def _find_webhook_distrust(facts: GateFacts, webhook: Webhook, chain: list[x509.Certificate]) -> str:
    bundle = webhook.client_config.ca_bundle
    if isinstance(facts.served_certificate, ServedCertificate) and webhook.client_config.url:
        return facts.served_certificate.trust_failures.get(bundle, "")
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
                format_webhook_patch(
                    facts.location, kind, configuration, webhook, "clientConfig/caBundle", encoded_bundle
                ),
            )
    return list_renew_commands(facts) if chain[0].not_valid_after_utc < facts.now else list_publish_commands(facts)


def _check_certificate(facts: GateFacts) -> CheckResult:
    chain = _load_served_chain(facts)
    if isinstance(chain, Unavailable):
        return combine_results(
            [*_check_replica_certificates(facts, chain)],
            create_unknown(f"the certificate that the gate serves cannot be read: {chain.reason}"),
        )
    certificate = chain[0]
    results = [
        *_check_lifetime(facts, "the certificate", certificate),
        *_check_ca_bundles(facts),
        *_check_replica_certificates(facts, chain),
    ]
    days = (certificate.not_valid_after_utc - facts.now) / timedelta(days=1)
    return combine_results(
        results, create_pass(f"{days:.0f} days left, until {certificate.not_valid_after_utc:%Y-%m-%d}")
    )


def _check_ca_bundles(facts: GateFacts) -> Iterator[CheckResult]:
    """Check the certificate of each bundle that expires last: a bundle may also contain a replaced one."""
    for bundle in {webhook.client_config.ca_bundle for _, _, webhook in _list_webhooks(facts)} - {b""}:
        try:
            longest_lived = max(load_certificates(bundle), key=lambda each: each.not_valid_after_utc)
        except (CertificateChainError, ValueError):
            continue  # the check `trusted` reports it
        yield from _check_lifetime(facts, "the authority in caBundle", longest_lived)


def _check_lifetime(facts: GateFacts, noun: str, certificate: x509.Certificate) -> Iterator[CheckResult]:
    remaining = certificate.not_valid_after_utc - facts.now
    until = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    threshold = min(WARN_BEFORE, (certificate.not_valid_after_utc - certificate.not_valid_before_utc) / _LIFETIME_PARTS)
    if remaining < timedelta():
        yield create_failure(f"{noun} has expired on {until}", *list_renew_commands(facts))
    elif remaining < threshold:
        yield create_warning(
            f"{noun} expires on {until}, in {_format_remaining(remaining)}", *list_renew_commands(facts)
        )


def _format_remaining(remaining: timedelta) -> str:
    seconds = remaining.total_seconds()
    return f"{seconds / _DAY_SECONDS:.1f} days" if seconds >= _DAY_SECONDS else f"{seconds / 3600:.1f} hours"


def _check_replica_certificates(facts: GateFacts, chain: list[x509.Certificate] | Unavailable) -> Iterator[CheckResult]:
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
            yield create_failure(
                f"replica {replica.name} serves with a certificate that has expired", *list_renew_commands(facts)
            )
        elif not isinstance(chain, Unavailable) and abs(not_after - _get_not_after(chain)) > _TOLERANCE_SECONDS:
            reason = f"replica {replica.name} serves with another certificate than it should, good until "
            yield create_warning(
                f"{reason}{datetime.fromtimestamp(not_after, facts.now.tzinfo):%Y-%m-%d}",
                *_list_restart_commands(facts),
            )


def _get_not_after(chain: list[x509.Certificate]) -> float:
    return chain[0].not_valid_after_utc.timestamp()


def _list_restart_commands(facts: GateFacts) -> tuple[str, ...]:
    return (
        ()
        if facts.is_called_by_url
        else (format_namespaced_kubectl(facts.location, "rollout", "restart", "deployment/tallygate"),)
    )


CHECKS = (
    Check(
        "trusted",
        "API servers trust the certificate of the gate",
        "FAIL: a webhook's caBundle is empty, or has not signed the gate's certificate, or not for its name",
        _check_trust,
    ),
    Check(
        "certificate",
        "The certificate lasts",
        f"FAIL: it has expired, or its authority; WARN: less than {WARN_BEFORE.days} days or a tenth of its life "
        "left, or a "
        "replica serves with another one",
        _check_certificate,
    ),
)
