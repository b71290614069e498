"""The Certificates of the component `cert-manager`: issued, renewed, lost, and trusted meanwhile."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from cryptography import x509

from certs.secret_state import compute_fingerprint
from e2e.load import Answer, until_more
from e2e.ports import Cluster
from e2e.said import said
from e2e.waiting import until
from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE

SERVED: Final = "tallygate-tls"
"""The Secret of the certificate that the gate serves with."""

_SECRETS: Final = {"tallygate": SERVED, "tallygate-authority": "tallygate-authority"}
"""What each Certificate of the component is kept in."""

_OWN = f"--namespace={DEFAULT_NAMESPACE}"
_KIND = "certificates.cert-manager.io"
_WITHIN = 240.0  # seconds
_MEANWHILE = 40  # pods that are created between two steps


def issued(cluster: Cluster, name: str = SERVED) -> str:
    """The fingerprint of the certificate that a Secret holds; empty while there is none.

    Raises:
        ClusterError: it cannot be read; the text is kubectl's.
    """
    found = said(cluster, "get", "secret", name, _OWN, "--ignore-not-found", "--output=json")
    text = json.loads(found)["data"].get("tls.crt", "") if found.strip() else ""
    return compute_fingerprint(x509.load_pem_x509_certificate(base64.b64decode(text))) if text else ""


def trusted_by_all(cluster: Cluster, authorities: int) -> bool:
    """Whether every webhook trusts so many.

    Raises:
        ClusterError: the configurations cannot be read; the text is kubectl's.
    """
    kinds = "mutatingwebhookconfiguration/tallygate", "validatingwebhookconfiguration/tallygate"
    read = json.loads(said(cluster, "get", *kinds, "--output=json"))["items"]
    clients = [webhook["clientConfig"] for each in read for webhook in each["webhooks"]]
    trusted = [base64.b64decode(each.get("caBundle", "")) for each in clients]
    return all(text.count(b"BEGIN CERTIFICATE") == authorities for text in trusted)


def renew_all(cluster: Cluster, bring: Callable[[], None], answers: list[Answer]) -> None:
    """Renew the certificate, lose it, and let the authority and it be renewed, while clients create pods.

    `bring` lets the gate have what is issued, and returns once it serves with that.

    Raises:
        ClusterError: something is not issued, injected or taken up in time.
    """
    _renew(cluster, "tallygate")
    bring()
    until_more(answers, _MEANWHILE)
    _lose(cluster)
    bring()
    until_more(answers, _MEANWHILE)
    _renew(cluster, "tallygate-authority")
    _renew(cluster, "tallygate")
    until("the injector has put the new authority beside the old one", partial(trusted_by_all, cluster, 2), _WITHIN)
    until_more(answers, _MEANWHILE)  # who has the old certificate still is trusted
    bring()
    until_more(answers, _MEANWHILE)


def _renew(cluster: Cluster, name: str) -> None:
    """As `cmctl renew` does; return once another is issued (cert-manager, cmd/ctl/pkg/renew)."""
    before = issued(cluster, _SECRETS[name])
    found = json.loads(said(cluster, "get", _KIND, name, _OWN, "--output=json"))
    conditions = [each for each in found["status"]["conditions"] if each["type"] != "Issuing"]
    asked: dict[str, Any] = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand"}
    asked |= {"lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    patch = json.dumps({"status": {"conditions": [*conditions, asked]}})
    said(cluster, "patch", _KIND, name, _OWN, "--subresource=status", "--type=merge", f"--patch={patch}")
    until(f"{name} is renewed", partial(_is_another, cluster, _SECRETS[name], before), _WITHIN)


def _lose(cluster: Cluster) -> None:
    """Take the certificate's Secret away; return once it is issued anew."""
    before = issued(cluster)
    said(cluster, "delete", "secret", SERVED, _OWN)
    until("it is issued anew", partial(_is_another, cluster, SERVED, before), _WITHIN)


def _is_another(cluster: Cluster, name: str, before: str) -> bool:
    return issued(cluster, name) not in {"", before}
