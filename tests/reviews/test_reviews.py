"""Every review that a real API server sent, answered by the real server."""

from collections.abc import Iterator

import httpx
import pytest

from tests.reviews.replay import ANSWERS, list_reviews, read_answer, send
from tests.server.process import ServerProcess


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a client of a server under the shipped policies."""
    folder = tmp_path_factory.mktemp("reviews")
    with ServerProcess(folder, "tests.server.gate_server") as server, server.client() as client:
        yield client


@pytest.mark.parametrize("name", list_reviews())
def test_the_answer_is_the_recorded_one(client: httpx.Client, name: str) -> None:
    assert send(client, name) == read_answer(name)


def test_every_answer_on_disk_has_its_review() -> None:
    assert sorted(path.stem for path in ANSWERS.glob("*.json")) == list_reviews()


@pytest.mark.parametrize("name", list_reviews())
def test_every_answer_is_valid_for_the_api_server(name: str) -> None:
    answer = read_answer(name)
    response = answer["response"]
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert isinstance(response["allowed"], bool)
    assert ("patch" in response) == ("patchType" in response)
    assert "patch" not in response or "-mutate-" in name
    assert response["allowed"] or response["status"]["code"] >= 400
