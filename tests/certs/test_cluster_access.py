"""Requests to an API server: headers of every request, limits of responses, and errors."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from urllib3 import PoolManager

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, ResponseLimits
from tallygate.kube.config import load_kubeconfig
from tallygate_certs import cluster_access
from tallygate_certs.cluster_access import (
    create_client,
    create_object,
    patch_object,
    read_object,
    replace_object,
)
from tallygate_certs.errors import CertsError
from tallygate_certs.secret_store import KubernetesCertificateStore
from tests.certs import api_server
from tests.server.process import eventually

PATH = "/api/v1/namespaces/own/secrets"
MAX_BYTES = 4 << 20
CHUNK_BYTES = 1 << 16
SECRET = {"kind": "Secret", "metadata": {"name": "tls", "resourceVersion": "1"}}


@pytest.fixture
def server() -> api_server.CertificateApiServer:
    """Return an API server with one Secret."""
    return api_server.CertificateApiServer({f"{PATH}/tls": SECRET})


@pytest.fixture
def api(server: api_server.CertificateApiServer, tmp_path: Path) -> Iterator[ApiClient]:
    """Yield a client of the server."""
    with api_server.run_api_server(server, tmp_path) as kubeconfig:
        made = create_client(load_kubeconfig(kubeconfig))
        yield made
        made.close()


def test_every_request_names_its_client_and_carries_the_token(
    server: api_server.CertificateApiServer, api: ApiClient
) -> None:
    read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    create_object(api, PATH, {"metadata": {"name": "other"}})
    assert [path for path, _ in server.requests] == [f"{PATH}/tls", f"{PATH}?fieldManager=tallygate-certs"]
    for _, headers in server.requests:
        assert headers["Authorization"] == "Bearer t"
        assert headers["User-Agent"] == "tallygate-certs"


def test_a_patch_has_the_content_type_of_a_json_patch(server: api_server.CertificateApiServer, api: ApiClient) -> None:
    server.fixed_response = (200, b"{}")
    patch_object(api, f"{PATH}/tls", [])
    replace_object(api, f"{PATH}/tls", SECRET)
    types = [headers["Content-Type"] for _, headers in server.requests]
    assert types == ["application/json-patch+json", "application/json"]


def test_a_token_that_cannot_be_renewed_is_reported(server: api_server.CertificateApiServer, api: ApiClient) -> None:
    def fail() -> str:
        raise ApiError(ApiErrorReason.UNAUTHORIZED, "the token cannot be renewed: no such program")

    unauthenticated = create_client(ClientConfig(api.server, PoolManager(), fail))
    with pytest.raises(CertsError) as caught:
        KubernetesCertificateStore(unauthenticated, ("own", "tls"), "tallygate").read_secret()
    message = f"the API server at {api.server} cannot be reached: the token cannot be renewed: no such program"
    assert str(caught.value) == message
    assert not server.requests


def test_an_incomplete_response_is_reported(server: api_server.CertificateApiServer, api: ApiClient) -> None:
    server.withheld_bytes = 5
    with pytest.raises(ApiError, match="IncompleteRead") as caught:
        read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    assert caught.value.status == 0


@pytest.mark.parametrize(
    ("headers", "endless_body"),
    [
        ({}, b"x" * CHUNK_BYTES),
        ({"Content-Length": f"{1 << 40}"}, b"x" * CHUNK_BYTES),
        ({"Transfer-Encoding": "chunked"}, b"%x\r\n%s\r\n" % (CHUNK_BYTES, b"x" * CHUNK_BYTES)),
    ],
    ids=["until the connection closes", "with a content length", "in chunks"],
)
@pytest.mark.parametrize("code", [200, 403])
def test_an_answer_without_an_end_is_not_read_to_its_end(
    server: api_server.CertificateApiServer, api: ApiClient, headers: dict[str, str], endless_body: bytes, code: int
) -> None:
    server.headers, server.endless_body, server.fixed_response = headers, endless_body, (code, b"")
    with pytest.raises(CertsError) as caught:
        KubernetesCertificateStore(api, ("own", "tls"), "tallygate").read_secret()
    host = api.server
    assert str(caught.value) == (
        f"cannot read the Secret own/tls: the API server at {host} answers {code}: its answer is longer than 4 MiB, "
        "and no object is: something else answers there"
    )
    assert server.endless_bytes_sent < 3 * MAX_BYTES  # bytes that are in flight when the client disconnects count too
    assert eventually(lambda: not server.is_sending_endless)


def test_a_response_that_arrives_byte_by_byte_runs_into_a_timeout(
    server: api_server.CertificateApiServer, api: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_access, "_LIMITS", ResponseLimits(5.0, 30.0, 0.1, MAX_BYTES))
    impatient = create_client(load_kubeconfig(tmp_path / "kubeconfig"))
    assert impatient.server == api.server
    server.endless_body = b" "
    with pytest.raises(CertsError, match="answers 200: its answer is not whole after 0 s"):
        KubernetesCertificateStore(impatient, ("own", "tls"), "tallygate").read_secret()
    assert server.endless_bytes_sent < CHUNK_BYTES  # the whole chunk would take more than a second
    assert eventually(lambda: not server.is_sending_endless)


def test_a_connection_is_reused_for_the_next_request(server: api_server.CertificateApiServer, api: ApiClient) -> None:
    for _ in range(3):
        read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.parametrize("over", [0, 1])
def test_a_response_may_have_four_mebibytes_and_not_more(
    server: api_server.CertificateApiServer, api: ApiClient, over: int
) -> None:
    text = json.dumps(SECRET).encode()
    server.fixed_response = (200, text + b" " * (MAX_BYTES + over - len(text)))
    if over:
        with pytest.raises(ApiError, match="more than 4194304 bytes"):
            read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    else:
        assert read_object(api, f"{PATH}/tls", "Secret", "own/tls") == SECRET


def test_an_unrequested_compressed_response_is_not_decompressed(
    server: api_server.CertificateApiServer, api: ApiClient
) -> None:
    server.headers, server.fixed_response = (
        {"Content-Encoding": "gzip"},
        (200, gzip.compress(json.dumps(SECRET).encode())),
    )
    with pytest.raises(CertsError, match="is no API server"):
        read_object(api, f"{PATH}/tls", "Secret", "own/tls")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_with_a_token_or_a_key(
    server: api_server.CertificateApiServer, api: ApiClient, tmp_path: Path, code: int
) -> None:
    other = api_server.CertificateApiServer({f"{PATH}/tls": SECRET})
    (tmp_path / "other").mkdir()
    with api_server.run_api_server(other, tmp_path / "other") as kubeconfig:
        server.fixed_response = (code, b"")
        server.headers = {"Location": create_client(load_kubeconfig(kubeconfig)).server + f"{PATH}/tls"}
        for send in (
            lambda: read_object(api, f"{PATH}/tls", "Secret", "own/tls"),
            lambda: replace_object(api, f"{PATH}/tls", SECRET),
        ):
            with pytest.raises(ApiError) as caught:
                send()
            assert caught.value.status == code
    assert other.requests == []


@pytest.mark.parametrize(
    ("name", "segment"), [("a?b", "a%3Fb"), ("a/b", "a%2Fb"), ("a%2fb", "a%252fb"), ("ü", "%C3%BC")]
)
def test_every_name_is_one_segment_of_the_path(
    server: api_server.CertificateApiServer, api: ApiClient, name: str, segment: str
) -> None:
    cluster = KubernetesCertificateStore(api, (name, name), name)
    assert cluster.read_secret() is None
    assert cluster.read_webhook_trust() == ()
    secret, mutating, validating = [path for path, _ in server.requests]
    assert secret == f"/api/v1/namespaces/{segment}/secrets/{segment}"
    assert mutating.endswith(f"/mutatingwebhookconfigurations/{segment}")
    assert validating.endswith(f"/validatingwebhookconfigurations/{segment}")


def test_no_typed_class_of_the_client_is_loaded() -> None:
    """Avoid these modules, whose import takes longer than the rest of a start."""
    program = (
        "import sys; import tallygate_certs.ca_bundle, tallygate_certs.secret_store, tallygate_certs.secret_store;"
    )
    program += "typed = ('kubernetes.client.api.', 'kubernetes.client.models.');"
    program += "print([each for each in sys.modules if each.startswith(typed)])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  ourselves, no shell
    assert (done.stdout, done.stderr) == ("[]\n", "")
