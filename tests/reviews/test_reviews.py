"""Every review that a real API server sent, answered by the real server."""

from collections.abc import Iterator

import httpx
import pytest

from tests.reviews.replay import ANSWERS, kept, names, send
from tests.server.process import ServerProcess


@pytest.fixture(scope="module", params=[False, True], ids=["HTTP/1.1", "HTTP/2"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server under the shipped policies. kube-apiserver speaks HTTP/2 to loopback addresses only."""
    folder = tmp_path_factory.mktemp("reviews")
    with (
        ServerProcess(folder, "tests.server.real") as server,
        server.client(http1=not request.param, http2=request.param) as client,
    ):
        yield client


@pytest.mark.parametrize("name", names())
def test_the_answer_is_the_one_on_disk(client: httpx.Client, name: str) -> None:
    assert send(client, name) == kept(name)


def test_every_answer_on_disk_has_its_review() -> None:
    assert sorted(path.stem for path in ANSWERS.glob("*.json")) == names()


@pytest.mark.parametrize("name", names())
def test_the_api_server_would_call_no_answer_invalid(name: str) -> None:
    answer = kept(name)
    response = answer["response"]
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert isinstance(response["allowed"], bool)
    assert ("patch" in response) == ("patchType" in response)
    assert "patch" not in response or "-mutate-" in name
    assert response["allowed"] or response["status"]["code"] >= 400
