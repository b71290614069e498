"""Who makes the gate's certificate, and what to type so that it is made anew, and trusted."""

from enum import Enum, auto

from certs.files import AUTHORITIES, CHAIN, KEY
from webhook.cli.doctoring.facts import GateFacts
from webhook.cli.doctoring.mending import format_kubectl, format_namespaced_kubectl, format_tallygate
from webhook.cli.doctoring.records import GateDeployment
from webhook.cli.doctoring.rights import Feature, parse_features

_CERTIFICATE_DIRECTORY = "certs.d/"  # as deploy/README.md calls it
_INJECT_ANNOTATION = "cert-manager.io/inject-ca-from"


class _Issuer(Enum):
    """Who makes it: somebody by `tallygate certs`, the gate itself, or cert-manager."""

    MANUAL = auto()
    GATE = auto()
    CERT_MANAGER = auto()


def find_issuer(facts: GateFacts) -> _Issuer:
    """Who does here."""
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
    """Let the API server trust what the gate shows; where that is done without anybody, look why it is not."""
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
    """Have it made anew, trusted, and put where the gate reads it."""
    match find_issuer(facts):
        case _Issuer.GATE:
            annotation = "tallygate.dev/renew=certificate"
            return (
                format_namespaced_kubectl(
                    facts.location, "annotate", "secret", facts.location.secret_name, annotation, "--overwrite"
                ),
            )
        case _Issuer.CERT_MANAGER:  # which makes what is gone anew
            return (format_namespaced_kubectl(facts.location, "delete", "secret", facts.location.secret_name),)
        case _Issuer.MANUAL:
            renew_command = f"tallygate certs renew {_CERTIFICATE_DIRECTORY}"
            return (
                renew_command,
                *list_publish_commands(facts),
                *(() if facts.is_called_by_url else (_format_secret_update(facts),)),
            )


def _format_secret_update(facts: GateFacts) -> str:
    """With the authorities beside, by which one replica knows another (docs/install.md, "The relay")."""
    files = (f"--from-file={_CERTIFICATE_DIRECTORY}{name}" for name in (CHAIN, KEY, AUTHORITIES))
    create_arguments = ("create", "secret", "generic", facts.location.secret_name, "--type=kubernetes.io/tls", *files)
    create_command = format_namespaced_kubectl(facts.location, *create_arguments, "--dry-run=client", "--output=yaml")
    return f"{create_command} | {format_kubectl(facts.location, 'apply', '--filename=-')}"
