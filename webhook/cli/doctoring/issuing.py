"""Who makes the gate's certificate, and what to type so that it is made anew, and trusted."""

from enum import Enum, auto

from certs.files import AUTHORITIES, CHAIN, KEY
from webhook.cli.doctoring.facts import Facts
from webhook.cli.doctoring.mending import kubectl, own, tallygate
from webhook.cli.doctoring.records import Deployment
from webhook.cli.doctoring.rights import Feature, features

_FOLDER = "certs.d/"  # as deploy/README.md calls it
_INJECTED = "cert-manager.io/inject-ca-from"


class Issuer(Enum):
    """Who makes it: somebody by `tallygate certs`, the gate itself, or cert-manager."""

    HAND = auto()
    GATE = auto()
    CERT_MANAGER = auto()


def issuer(facts: Facts) -> Issuer:
    """Who does here."""
    if isinstance(facts.deployment, Deployment) and Feature.CERTIFIES in features(facts.deployment.arguments):
        return Issuer.GATE
    if any(_INJECTED in (found.metadata.annotations or {}) for _, found in facts.configurations()):
        return Issuer.CERT_MANAGER
    return Issuer.HAND


def publish(facts: Facts) -> tuple[str, ...]:
    """Let the API server trust what the gate shows; where that is done without anybody, look why it is not."""
    match issuer(facts):
        case Issuer.GATE:
            return (own(facts.here, "logs", "--selector=app.kubernetes.io/component=gate", "--tail=50"),)
        case Issuer.CERT_MANAGER:
            return (own(facts.here, "describe", "certificates.cert-manager.io", "tallygate"),)
        case Issuer.HAND:
            return (tallygate(facts.here, "certs", "publish", _FOLDER),)


def renew(facts: Facts) -> tuple[str, ...]:
    """Have it made anew, trusted, and put where the gate reads it."""
    match issuer(facts):
        case Issuer.GATE:
            annotation = "tallygate.dev/renew=certificate"
            return (own(facts.here, "annotate", "secret", facts.here.secret, annotation, "--overwrite"),)
        case Issuer.CERT_MANAGER:  # which makes what is gone anew
            return (own(facts.here, "delete", "secret", facts.here.secret),)
        case Issuer.HAND:
            made = f"tallygate certs renew {_FOLDER}"
            return (made, *publish(facts), *(() if facts.is_called_by_url else (_stored(facts),)))


def _stored(facts: Facts) -> str:
    """With the authorities beside, by which one replica knows another (docs/install.md, "The relay")."""
    files = (f"--from-file={_FOLDER}{name}" for name in (CHAIN, KEY, AUTHORITIES))
    made = ("create", "secret", "generic", facts.here.secret, "--type=kubernetes.io/tls", *files)
    written = own(facts.here, *made, "--dry-run=client", "--output=yaml")
    return f"{written} | {kubectl(facts.here, 'apply', '--filename=-')}"
