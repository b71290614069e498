"""Requests to an API server: who asks and for what is said in each, and an answer that does not come is told."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from urllib3 import PoolManager

from certs import cluster_access
from certs.cluster_access import (
    create_client,
    create_object,
    patch_object,
    read_object,
    replace_object,
)
from certs.errors import CertsError
from certs.secret_store import KubernetesCertificateStore
from tests.certs import api_server
from tests.server.process import eventually
from webhook.kube.api_errors import ApiError, ApiErrorReason
from webhook.kube.client import ApiClient, ClientConfig, ResponseLimits
from webhook.kube.config import load_kubeconfig

PATH = "/api/v1/namespaces/own/secrets"
MOST = 4 << 20
PIECE = 1 << 16
SECRET = {"kind": "Secret", "metadata": {"name": "tls", "resourceVersion": "1"}}


@pytest.fixture
def there() -> api_server.Api:
    """An API server with one Secret."""
    return api_server.Api({f"{PATH}/tls": SECRET})


@pytest.fixture
def api(there: api_server.Api, tmp_path: Path) -> Iterator[ApiClient]:
    """It, as it is asked."""
    with api_server.serving(there, tmp_path) as kubeconfig:
        made = create_client(load_kubeconfig(kubeconfig))
        yield made
        made.close()


def test_who_asks_and_what_with_is_said_each_time(there: api_server.Api, api: ApiClient) -> None:
    read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    create_object(api, PATH, {"metadata": {"name": "other"}})
    assert [path for path, _ in there.asked] == [f"{PATH}/tls", f"{PATH}?fieldManager=tallygate-certs"]
    for _, headers in there.asked:
        assert headers["Authorization"] == "Bearer t"
        assert headers["User-Agent"] == "tallygate-certs"


def test_a_patch_is_known_for_one(there: api_server.Api, api: ApiClient) -> None:
    there.refusal = (200, b"{}")
    patch_object(api, f"{PATH}/tls", [])
    replace_object(api, f"{PATH}/tls", SECRET)
    types = [headers["Content-Type"] for _, headers in there.asked]
    assert types == ["application/json-patch+json", "application/json"]


def test_a_token_that_cannot_be_renewed_is_told(there: api_server.Api, api: ApiClient) -> None:
    def fail() -> str:
        raise ApiError(ApiErrorReason.UNAUTHORIZED, "the token cannot be renewed: no such program")

    nobody = create_client(ClientConfig(api.server, PoolManager(), fail))
    with pytest.raises(CertsError) as caught:
        KubernetesCertificateStore(nobody, ("own", "tls"), "tallygate").read_secret()
    told = f"the API server at {api.server} cannot be reached: the token cannot be renewed: no such program"
    assert str(caught.value) == told
    assert not there.asked


def test_an_answer_that_breaks_off_is_told(there: api_server.Api, api: ApiClient) -> None:
    there.withheld = 5
    with pytest.raises(ApiError, match="IncompleteRead") as caught:
        read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    assert caught.value.status == 0


@pytest.mark.parametrize(
    ("headers", "flood"),
    [
        ({}, b"x" * PIECE),
        ({"Content-Length": f"{1 << 40}"}, b"x" * PIECE),
        ({"Transfer-Encoding": "chunked"}, b"%x\r\n%s\r\n" % (PIECE, b"x" * PIECE)),
    ],
    ids=["until it is closed", "as long as it is said to be", "in chunks"],
)
@pytest.mark.parametrize("code", [200, 403])
def test_an_answer_without_an_end_is_not_read_to_its_end(
    there: api_server.Api, api: ApiClient, headers: dict[str, str], flood: bytes, code: int
) -> None:
    there.headers, there.flood, there.refusal = headers, flood, (code, b"")
    with pytest.raises(CertsError) as caught:
        KubernetesCertificateStore(api, ("own", "tls"), "tallygate").read_secret()
    host = api.server
    assert str(caught.value) == (
        f"cannot read the Secret own/tls: the API server at {host} answers {code}: its answer is longer than 4 MiB, "
        "and no object is: something else answers there"
    )
    assert there.flooded < 3 * MOST  # what is on its way when one hangs up is taken, too
    assert eventually(lambda: not there.flooding)


def test_an_answer_that_comes_a_byte_at_a_time_is_not_waited_for_for_ever(
    there: api_server.Api, api: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_access, "_LIMITS", ResponseLimits(5.0, 30.0, 0.1, MOST))
    hurried = create_client(load_kubeconfig(tmp_path / "kubeconfig"))
    assert hurried.server == api.server
    there.flood = b" "
    with pytest.raises(CertsError, match="answers 200: its answer is not whole after 0 s"):
        KubernetesCertificateStore(hurried, ("own", "tls"), "tallygate").read_secret()
    assert there.flooded < PIECE  # which takes a second and more
    assert eventually(lambda: not there.flooding)


def test_a_connection_is_kept_for_the_next_request(there: api_server.Api, api: ApiClient) -> None:
    for _ in range(3):
        read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    assert (len(there.asked), there.connections) == (3, 1)


@pytest.mark.parametrize("over", [0, 1])
def test_an_answer_may_be_as_long_as_an_object_and_more(there: api_server.Api, api: ApiClient, over: int) -> None:
    text = json.dumps(SECRET).encode()
    there.refusal = (200, text + b" " * (MOST + over - len(text)))
    if over:
        with pytest.raises(ApiError, match="more than 4194304 bytes"):
            read_object(api, f"{PATH}/tls", "Secret", "own/tls")
    else:
        assert read_object(api, f"{PATH}/tls", "Secret", "own/tls") == SECRET


def test_what_is_packed_though_nobody_asked_for_that_is_not_unpacked(there: api_server.Api, api: ApiClient) -> None:
    there.headers, there.refusal = {"Content-Encoding": "gzip"}, (200, gzip.compress(json.dumps(SECRET).encode()))
    with pytest.raises(CertsError, match="is no API server"):
        read_object(api, f"{PATH}/tls", "Secret", "own/tls")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_nobody_is_followed_elsewhere_with_a_token_and_a_key(
    there: api_server.Api, api: ApiClient, tmp_path: Path, code: int
) -> None:
    other = api_server.Api({f"{PATH}/tls": SECRET})
    (tmp_path / "other").mkdir()
    with api_server.serving(other, tmp_path / "other") as kubeconfig:
        there.refusal = (code, b"")
        there.headers = {"Location": create_client(load_kubeconfig(kubeconfig)).server + f"{PATH}/tls"}
        for ask in (
            lambda: read_object(api, f"{PATH}/tls", "Secret", "own/tls"),
            lambda: replace_object(api, f"{PATH}/tls", SECRET),
        ):
            with pytest.raises(ApiError) as caught:
                ask()
            assert caught.value.status == code
    assert other.asked == []


@pytest.mark.parametrize(("name", "step"), [("a?b", "a%3Fb"), ("a/b", "a%2Fb"), ("a%2fb", "a%252fb"), ("ü", "%C3%BC")])
def test_whatever_is_named_is_one_step_of_the_path(there: api_server.Api, api: ApiClient, name: str, step: str) -> None:
    cluster = KubernetesCertificateStore(api, (name, name), name)
    assert cluster.read_secret() is None
    assert cluster.read_webhook_trust() == ()
    secret, mutating, validating = [path for path, _ in there.asked]
    assert secret == f"/api/v1/namespaces/{step}/secrets/{step}"
    assert mutating.endswith(f"/mutatingwebhookconfigurations/{step}")
    assert validating.endswith(f"/validatingwebhookconfigurations/{step}")


def test_no_typed_class_of_the_client_is_loaded() -> None:
    """They take longer than all the rest of a start."""
    program = "import sys; import certs.ca_bundle, certs.secret_store, certs.secret_store;"
    program += "typed = ('kubernetes.client.api.', 'kubernetes.client.models.');"
    program += "print([each for each in sys.modules if each.startswith(typed)])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  ourselves, no shell
    assert (done.stdout, done.stderr) == ("[]\n", "")
