"""The Secret and the configurations of an API server: read, written when unchanged, and what others put there kept."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs.authority import new_authority, new_leaf
from certs.cluster import Source, connect
from certs.errors import CertsError
from certs.in_cluster import InCluster
from certs.keeper import ChangedError
from certs.kept import Kept, leaf_of
from certs.names import parse_names
from tests.certs.api_server import Api, serving

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = new_authority(NOW)
KEPT = Kept(AUTHORITY, (), leaf_of(new_leaf(AUTHORITY, parse_names(["gate"]), NOW)), NOW)
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
def cluster(api: Api, tmp_path: Path) -> Iterator[InCluster]:
    """It, as the keeper sees it."""
    with serving(api, tmp_path / "server") as path:
        yield InCluster(connect(Source(path)), ("own", "tls"), "tallygate")


def test_a_secret_that_is_made_is_read_as_it_was_meant(api: Api, cluster: InCluster) -> None:
    assert cluster.stored() is None
    cluster.store(KEPT, None)
    assert api.objects[PATH]["type"] == "kubernetes.io/tls"
    found = cluster.stored()
    assert found
    assert replace(found.kept, authority=None) == replace(KEPT, authority=None)


def test_of_two_that_make_it_one_is_refused(cluster: InCluster) -> None:
    cluster.store(KEPT, None)
    with pytest.raises(ChangedError, match="somebody else was quicker to create the Secret own/tls"):
        cluster.store(KEPT, None)


def test_who_has_read_what_is_no_longer_there_writes_nothing(api: Api, cluster: InCluster) -> None:
    cluster.store(KEPT, None)
    old = cluster.stored()
    cluster.store(replace(KEPT, asked="authority"), old)
    with pytest.raises(ChangedError):
        cluster.store(KEPT, old)
    del api.objects[PATH]
    with pytest.raises(ChangedError):
        cluster.store(KEPT, old)


def test_what_others_have_put_there_stays_and_what_was_asked_for_goes(api: Api, cluster: InCluster) -> None:
    cluster.store(replace(KEPT, asked="authority"), None)
    secret = api.objects[PATH]
    secret["metadata"]["annotations"]["theirs"] = "a"
    secret["metadata"]["labels"] = {"theirs": "b"}
    secret["data"]["theirs"] = "Yw=="
    found = cluster.stored()
    assert found
    assert found.kept.asked == "authority"
    cluster.store(KEPT, found)
    after = api.objects[PATH]
    assert set(after["metadata"]["annotations"]) == {"theirs", "tallygate.dev/authority-since"}
    assert (after["metadata"]["labels"], after["data"]["theirs"]) == ({"theirs": "b"}, "Yw==")


def test_data_that_is_no_base64_is_as_good_as_none(api: Api, cluster: InCluster) -> None:
    cluster.store(KEPT, None)
    api.objects[PATH]["data"]["tls.crt"] = "???"
    found = cluster.stored()
    assert found
    assert (found.kept.leaf, found.kept.authorities) == (None, KEPT.authorities)


def test_a_secret_that_cert_manager_keeps_is_left_to_it(api: Api, cluster: InCluster) -> None:
    cluster.store(KEPT, None)
    api.objects[PATH]["metadata"]["annotations"]["cert-manager.io/certificate-name"] = "gate"
    with pytest.raises(CertsError, match=r"own/tls is kept by cert-manager: mount it and serve with --tls-cert"):
        cluster.stored()


def test_the_names_are_those_that_api_servers_call(cluster: InCluster) -> None:
    service, urls = cluster.registered()
    assert service.names
    assert service.names.texts() == ("gate.own.svc", "gate.own.svc.cluster.local", "gate.own", "gate")
    assert urls.names
    assert urls.names.texts() == ("10.1.2.3",)


def test_what_is_published_is_read_again(cluster: InCluster) -> None:
    for each in cluster.registered():
        cluster.publish(each, b"trusted")
    assert [each.bundles for each in cluster.registered()] == [(b"trusted",), (b"trusted",) * 3]


def test_nothing_is_published_over_what_was_changed_meanwhile(api: Api, cluster: InCluster) -> None:
    first, _ = cluster.registered()
    api.rivals = 1
    with pytest.raises(ChangedError, match="patch the MutatingWebhookConfiguration tallygate"):
        cluster.publish(first, b"trusted")


def test_configurations_that_are_not_there_are_none(api: Api, cluster: InCluster) -> None:
    api.objects.clear()
    assert cluster.registered() == ()


@pytest.mark.parametrize("what", ["registered", "stored"])
def test_a_refusal_is_told_with_what_was_tried(api: Api, cluster: InCluster, what: str) -> None:
    api.refusal = (403, b'{"message": "gate may not"}')
    with pytest.raises(CertsError, match=r"cannot read the .*: the API server at .* answers 403: gate may not"):
        getattr(cluster, what)()


def test_a_namespace_that_is_not_there_is_no_race(api: Api, cluster: InCluster) -> None:
    api.refusal = (404, b'{"message": "namespaces \\"own\\" not found"}')
    with pytest.raises(CertsError, match=r'cannot create the Secret own/tls: .* 404: namespaces "own" not found'):
        cluster.store(KEPT, None)


def test_no_key_is_in_what_is_said_when_a_write_is_refused(api: Api, cluster: InCluster) -> None:
    api.refusal = (422, b'{"message": "field is immutable when immutable is set"}')
    with pytest.raises(CertsError) as caught:
        cluster.store(KEPT, None)
    assert KEPT.leaf
    for secret in (KEPT.leaf.key, base64.b64encode(KEPT.leaf.key)):
        assert secret.decode() not in str(caught.value)
