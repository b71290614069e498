"""The Certificates of the component `cert-manager`: issued, renewed, lost, and trusted meanwhile."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from cryptography import x509

from e2e.command_output import run_kubectl
from e2e.load import Answer, until_more
from e2e.ports import Cluster
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate_certs.secret_state import compute_fingerprint

SERVED: Final = "tallygate-tls"
"""The Secret of the certificate that the gate serves with."""

_SECRETS: Final = {"tallygate": SERVED, "tallygate-authority": "tallygate-authority"}
"""What each Certificate of the component is kept in."""

_OWN = f"--namespace={DEFAULT_NAMESPACE}"
_KIND = "certificates.cert-manager.io"
_WITHIN = 240.0  # seconds
_MEANWHILE = 40  # pods that are created between two steps


def read_fingerprint(cluster: Cluster, name: str = SERVED) -> str:
    """Return the fingerprint of the certificate in a Secret; empty if it is missing.

    Raises:
        ClusterError: if it cannot be read; the text is kubectl's.
    """
    found = run_kubectl(cluster, "get", "secret", name, _OWN, "--ignore-not-found", "--output=json")
    text = json.loads(found)["data"].get("tls.crt", "") if found.strip() else ""
    return compute_fingerprint(x509.load_pem_x509_certificate(base64.b64decode(text))) if text else ""


def has_authorities_everywhere(cluster: Cluster, authorities: int) -> bool:
    """Return whether every webhook trusts this number of authorities.

    Raises:
        ClusterError: if the configurations cannot be read; the text is kubectl's.
    """
    kinds = "mutatingwebhookconfiguration/tallygate", "validatingwebhookconfiguration/tallygate"
    read = json.loads(run_kubectl(cluster, "get", *kinds, "--output=json"))["items"]
    registered = [each.get("webhooks") or () for each in read]  # the gate registers itself a moment later
    bundles = [base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for each in registered for webhook in each]
    return all(registered) and all(bundle.count(b"BEGIN CERTIFICATE") == authorities for bundle in bundles)


def renew_all(cluster: Cluster, bring: Callable[[], None], answers: list[Answer]) -> None:
    """Renew the certificate, lose it, and let the authority and it be renewed, while clients create pods.

    `bring` hands the issued certificate to the gate, and returns once it serves with it.

    Raises:
        ClusterError: if something is not issued, injected or reloaded in time.
    """
    _renew(cluster, "tallygate")
    bring()
    until_more(answers, _MEANWHILE)
    _lose(cluster)
    bring()
    until_more(answers, _MEANWHILE)
    _renew(cluster, "tallygate-authority")
    _renew(cluster, "tallygate")
    until(
        "the injector has put the new authority beside the old one",
        partial(has_authorities_everywhere, cluster, 2),
        _WITHIN,
    )
    until_more(answers, _MEANWHILE)  # who has the old certificate still is trusted
    bring()
    until_more(answers, _MEANWHILE)


def _renew(cluster: Cluster, name: str) -> None:
    """Renew a certificate as `cmctl renew` does; return once another is issued (cert-manager, cmd/ctl/pkg/renew)."""
    before = read_fingerprint(cluster, _SECRETS[name])
    found = json.loads(run_kubectl(cluster, "get", _KIND, name, _OWN, "--output=json"))
    conditions = [each for each in found["status"]["conditions"] if each["type"] != "Issuing"]
    asked: dict[str, Any] = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand"}
    asked |= {"lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    patch = json.dumps({"status": {"conditions": [*conditions, asked]}})
    run_kubectl(cluster, "patch", _KIND, name, _OWN, "--subresource=status", "--type=merge", f"--patch={patch}")
    until(f"{name} is renewed", partial(_is_another, cluster, _SECRETS[name], before), _WITHIN)


def _lose(cluster: Cluster) -> None:
    """Delete the certificate's Secret; return once it is issued again."""
    before = read_fingerprint(cluster)
    run_kubectl(cluster, "delete", "secret", SERVED, _OWN)
    until("it is issued again", partial(_is_another, cluster, SERVED, before), _WITHIN)


def _is_another(cluster: Cluster, name: str, before: str) -> bool:
    return read_fingerprint(cluster, name) not in {"", before}
