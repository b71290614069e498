"""The Secret and the configurations of an API server: reads, conditional writes, and fields of other clients."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tallygate.kube.config import load_kubeconfig
from tallygate_certs.authority import create_ca, create_serving_certificate
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.certificate_reconciler import ChangedError
from tallygate_certs.cluster_access import create_client
from tallygate_certs.errors import CertsError
from tallygate_certs.secret_state import SecretState, convert_key_pair
from tallygate_certs.secret_store import KubernetesCertificateStore
from tests.certs.api_server import CertificateApiServer, run_api_server

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CA = create_ca(NOW)
STATE = SecretState(CA, (), convert_key_pair(create_serving_certificate(CA, parse_names(["gate"]), NOW)), NOW)
PATH = "/api/v1/namespaces/own/secrets/tls"


@pytest.fixture
def api() -> CertificateApiServer:
    """Return an API server with both configurations: one calls a Service, one a URL and two invalid URLs."""
    api = CertificateApiServer()
    service = {"service": {"namespace": "own", "name": "gate", "port": 443}}
    api.add("MutatingWebhookConfiguration", "tallygate", [{"clientConfig": service}])
    urls = ["https://10.1.2.3:8443/x", "https://[::1", "https://"]
    api.add("ValidatingWebhookConfiguration", "tallygate", [{"clientConfig": {"url": url}} for url in urls])
    return api


@pytest.fixture
def store(api: CertificateApiServer, tmp_path: Path) -> Iterator[KubernetesCertificateStore]:
    """Yield the store that the reconciler uses."""
    with run_api_server(api, tmp_path / "server") as path:
        yield KubernetesCertificateStore(create_client(load_kubeconfig(path)), ("own", "tls"), "tallygate")


def test_a_created_secret_is_read_unchanged(api: CertificateApiServer, store: KubernetesCertificateStore) -> None:
    assert store.read_secret() is None
    store.write_secret(STATE, None)
    assert api.objects[PATH]["type"] == "kubernetes.io/tls"
    found = store.read_secret()
    assert found
    assert replace(found.state, ca=None) == replace(STATE, ca=None)


def test_one_of_two_concurrent_creations_is_rejected(store: KubernetesCertificateStore) -> None:
    store.write_secret(STATE, None)
    with pytest.raises(ChangedError, match="another client was quicker to create the Secret own/tls"):
        store.write_secret(STATE, None)


def test_a_write_based_on_an_old_version_is_rejected(
    api: CertificateApiServer, store: KubernetesCertificateStore
) -> None:
    store.write_secret(STATE, None)
    old = store.read_secret()
    store.write_secret(replace(STATE, requested="authority"), old)
    with pytest.raises(ChangedError):
        store.write_secret(STATE, old)
    del api.objects[PATH]
    with pytest.raises(ChangedError):
        store.write_secret(STATE, old)


def test_fields_of_other_clients_stay_and_the_renewal_request_is_removed(
    api: CertificateApiServer, store: KubernetesCertificateStore
) -> None:
    store.write_secret(replace(STATE, requested="authority"), None)
    secret = api.objects[PATH]
    secret["metadata"]["annotations"]["theirs"] = "a"
    secret["metadata"]["labels"] = {"theirs": "b"}
    secret["data"]["theirs"] = "Yw=="
    found = store.read_secret()
    assert found
    assert found.state.requested == "authority"
    store.write_secret(STATE, found)
    after = api.objects[PATH]
    assert set(after["metadata"]["annotations"]) == {"theirs", "tallygate.dev/authority-since"}
    assert (after["metadata"]["labels"], after["data"]["theirs"]) == ({"theirs": "b"}, "Yw==")


def test_data_that_is_not_base64_counts_as_missing(
    api: CertificateApiServer, store: KubernetesCertificateStore
) -> None:
    store.write_secret(STATE, None)
    api.objects[PATH]["data"]["tls.crt"] = "???"
    found = store.read_secret()
    assert found
    assert (found.state.serving, found.state.ca_certificates) == (None, STATE.ca_certificates)


def test_a_secret_of_cert_manager_is_not_used(api: CertificateApiServer, store: KubernetesCertificateStore) -> None:
    store.write_secret(STATE, None)
    api.objects[PATH]["metadata"]["annotations"]["cert-manager.io/certificate-name"] = "gate"
    with pytest.raises(CertsError, match=r"own/tls is kept by cert-manager: mount it and serve with --tls-cert"):
        store.read_secret()


def test_certificate_names_are_the_names_that_api_servers_call(store: KubernetesCertificateStore) -> None:
    service, urls = store.read_webhook_trust()
    assert service.names
    assert service.names.to_texts() == ("gate.own.svc", "gate.own.svc.cluster.local", "gate.own", "gate")
    assert urls.names
    assert urls.names.to_texts() == ("10.1.2.3",)


def test_a_published_bundle_is_read_back(store: KubernetesCertificateStore) -> None:
    for each in store.read_webhook_trust():
        store.publish_bundle(each, b"trusted")
    assert [each.bundles for each in store.read_webhook_trust()] == [(b"trusted",), (b"trusted",) * 3]


def test_a_changed_configuration_is_not_overwritten(
    api: CertificateApiServer, store: KubernetesCertificateStore
) -> None:
    first, _ = store.read_webhook_trust()
    api.conflicting_writes = 1
    with pytest.raises(ChangedError, match="patch the MutatingWebhookConfiguration tallygate"):
        store.publish_bundle(first, b"trusted")


def test_missing_configurations_are_not_listed(api: CertificateApiServer, store: KubernetesCertificateStore) -> None:
    api.objects.clear()
    assert store.read_webhook_trust() == ()


@pytest.mark.parametrize("method_name", ["read_webhook_trust", "read_secret"])
def test_a_rejected_request_is_reported_with_the_attempted_operation(
    api: CertificateApiServer, store: KubernetesCertificateStore, method_name: str
) -> None:
    api.fixed_response = (403, b'{"message": "gate may not"}')
    with pytest.raises(CertsError, match=r"cannot read the .*: the API server at .* answers 403: gate may not"):
        getattr(store, method_name)()


def test_a_missing_namespace_is_not_a_conflict(api: CertificateApiServer, store: KubernetesCertificateStore) -> None:
    api.fixed_response = (404, b'{"message": "namespaces \\"own\\" not found"}')
    with pytest.raises(CertsError, match=r'cannot create the Secret own/tls: .* 404: namespaces "own" not found'):
        store.write_secret(STATE, None)


def test_the_error_of_a_rejected_write_contains_no_key(
    api: CertificateApiServer, store: KubernetesCertificateStore
) -> None:
    api.fixed_response = (422, b'{"message": "field is immutable when immutable is set"}')
    with pytest.raises(CertsError) as caught:
        store.write_secret(STATE, None)
    assert STATE.serving
    for secret in (STATE.serving.key, base64.b64encode(STATE.serving.key)):
        assert secret.decode() not in str(caught.value)
