"""The Secret and the configurations of an API server: read, written when unchanged, and what others put there kept."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs.authority import create_ca, create_serving_certificate
from certs.certificate_names import parse_names
from certs.certificate_reconciler import ChangedError
from certs.cluster_access import create_client
from certs.errors import CertsError
from certs.secret_state import SecretState, convert_key_pair
from certs.secret_store import KubernetesCertificateStore
from tests.certs.api_server import Api, serving
from webhook.kube.config import load_kubeconfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = create_ca(NOW)
KEPT = SecretState(
    AUTHORITY, (), convert_key_pair(create_serving_certificate(AUTHORITY, parse_names(["gate"]), NOW)), NOW
)
PATH = "/api/v1/namespaces/own/secrets/tls"


@pytest.fixture
def api() -> Api:
    """An API server with both configurations: one calls a Service, one a URL and something that nobody can call."""
    api = Api()
    service = {"service": {"namespace": "own", "name": "gate", "port": 443}}
    api.add("MutatingWebhookConfiguration", "tallygate", [{"clientConfig": service}])
    urls = ["https://10.1.2.3:8443/x", "https://[::1", "https://"]
    api.add("ValidatingWebhookConfiguration", "tallygate", [{"clientConfig": {"url": url}} for url in urls])
    return api


@pytest.fixture
def cluster(api: Api, tmp_path: Path) -> Iterator[KubernetesCertificateStore]:
    """It, as the keeper sees it."""
    with serving(api, tmp_path / "server") as path:
        yield KubernetesCertificateStore(create_client(load_kubeconfig(path)), ("own", "tls"), "tallygate")


def test_a_secret_that_is_made_is_read_as_it_was_meant(api: Api, cluster: KubernetesCertificateStore) -> None:
    assert cluster.read_secret() is None
    cluster.write_secret(KEPT, None)
    assert api.objects[PATH]["type"] == "kubernetes.io/tls"
    found = cluster.read_secret()
    assert found
    assert replace(found.state, ca=None) == replace(KEPT, ca=None)


def test_of_two_that_make_it_one_is_refused(cluster: KubernetesCertificateStore) -> None:
    cluster.write_secret(KEPT, None)
    with pytest.raises(ChangedError, match="another client was quicker to create the Secret own/tls"):
        cluster.write_secret(KEPT, None)


def test_who_has_read_what_is_no_longer_there_writes_nothing(api: Api, cluster: KubernetesCertificateStore) -> None:
    cluster.write_secret(KEPT, None)
    old = cluster.read_secret()
    cluster.write_secret(replace(KEPT, requested="authority"), old)
    with pytest.raises(ChangedError):
        cluster.write_secret(KEPT, old)
    del api.objects[PATH]
    with pytest.raises(ChangedError):
        cluster.write_secret(KEPT, old)


def test_what_others_have_put_there_stays_and_what_was_asked_for_goes(
    api: Api, cluster: KubernetesCertificateStore
) -> None:
    cluster.write_secret(replace(KEPT, requested="authority"), None)
    secret = api.objects[PATH]
    secret["metadata"]["annotations"]["theirs"] = "a"
    secret["metadata"]["labels"] = {"theirs": "b"}
    secret["data"]["theirs"] = "Yw=="
    found = cluster.read_secret()
    assert found
    assert found.state.requested == "authority"
    cluster.write_secret(KEPT, found)
    after = api.objects[PATH]
    assert set(after["metadata"]["annotations"]) == {"theirs", "tallygate.dev/authority-since"}
    assert (after["metadata"]["labels"], after["data"]["theirs"]) == ({"theirs": "b"}, "Yw==")


def test_data_that_is_no_base64_is_as_good_as_none(api: Api, cluster: KubernetesCertificateStore) -> None:
    cluster.write_secret(KEPT, None)
    api.objects[PATH]["data"]["tls.crt"] = "???"
    found = cluster.read_secret()
    assert found
    assert (found.state.serving, found.state.ca_certificates) == (None, KEPT.ca_certificates)


def test_a_secret_that_cert_manager_keeps_is_left_to_it(api: Api, cluster: KubernetesCertificateStore) -> None:
    cluster.write_secret(KEPT, None)
    api.objects[PATH]["metadata"]["annotations"]["cert-manager.io/certificate-name"] = "gate"
    with pytest.raises(CertsError, match=r"own/tls is kept by cert-manager: mount it and serve with --tls-cert"):
        cluster.read_secret()


def test_the_names_are_those_that_api_servers_call(cluster: KubernetesCertificateStore) -> None:
    service, urls = cluster.read_webhook_trust()
    assert service.names
    assert service.names.to_texts() == ("gate.own.svc", "gate.own.svc.cluster.local", "gate.own", "gate")
    assert urls.names
    assert urls.names.to_texts() == ("10.1.2.3",)


def test_what_is_published_is_read_again(cluster: KubernetesCertificateStore) -> None:
    for each in cluster.read_webhook_trust():
        cluster.publish_bundle(each, b"trusted")
    assert [each.bundles for each in cluster.read_webhook_trust()] == [(b"trusted",), (b"trusted",) * 3]


def test_nothing_is_published_over_what_was_changed_meanwhile(api: Api, cluster: KubernetesCertificateStore) -> None:
    first, _ = cluster.read_webhook_trust()
    api.rivals = 1
    with pytest.raises(ChangedError, match="patch the MutatingWebhookConfiguration tallygate"):
        cluster.publish_bundle(first, b"trusted")


def test_configurations_that_are_not_there_are_none(api: Api, cluster: KubernetesCertificateStore) -> None:
    api.objects.clear()
    assert cluster.read_webhook_trust() == ()


@pytest.mark.parametrize("what", ["read_webhook_trust", "read_secret"])
def test_a_refusal_is_told_with_what_was_tried(api: Api, cluster: KubernetesCertificateStore, what: str) -> None:
    api.refusal = (403, b'{"message": "gate may not"}')
    with pytest.raises(CertsError, match=r"cannot read the .*: the API server at .* answers 403: gate may not"):
        getattr(cluster, what)()


def test_a_namespace_that_is_not_there_is_no_race(api: Api, cluster: KubernetesCertificateStore) -> None:
    api.refusal = (404, b'{"message": "namespaces \\"own\\" not found"}')
    with pytest.raises(CertsError, match=r'cannot create the Secret own/tls: .* 404: namespaces "own" not found'):
        cluster.write_secret(KEPT, None)


def test_no_key_is_in_what_is_said_when_a_write_is_refused(api: Api, cluster: KubernetesCertificateStore) -> None:
    api.refusal = (422, b'{"message": "field is immutable when immutable is set"}')
    with pytest.raises(CertsError) as caught:
        cluster.write_secret(KEPT, None)
    assert KEPT.serving
    for secret in (KEPT.serving.key, base64.b64encode(KEPT.serving.key)):
        assert secret.decode() not in str(caught.value)
