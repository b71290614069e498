"""One object read from the quorum."""

from collections.abc import Mapping

import pytest

from webhook.kube.api_errors import ApiError, ApiErrorReason
from webhook.kube.transport import Response, WatchStream
from webhook.state.informers.cluster_informers import LiveReader

POD = b'{"kind": "Pod", "metadata": {"uid": "u1", "resourceVersion": "42"}}'


class Server:
    """Answers everything alike, and remembers what it was asked."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        self._answer = Response(status, body)
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """The one answer."""
        self.asked.append((path, query))
        return self._answer

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Nobody watches here."""
        raise AssertionError((path, query))


def read(server: Server, uid: str = "u1") -> int | None:
    """What a reader says of the pod."""
    return LiveReader(server).read_pod_revision("team-a", "p", uid)


def test_a_pod_that_is_there_is_told_by_its_revision() -> None:
    server = Server(200, POD)
    assert read(server) == 42
    assert server.asked == [("/api/v1/namespaces/team-a/pods/p", {})]  # without a resourceVersion: from the quorum


@pytest.mark.parametrize("server", [Server(404), Server(200, POD.replace(b"u1", b"u2")), Server(200, b"{}")])
def test_no_pod_or_another_one_is_none(server: Server) -> None:
    assert read(server) is None


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (Server(403), ApiErrorReason.REFUSED),
        (Server(500), ApiErrorReason.REFUSED),
        (Server(200, b"{"), ApiErrorReason.UNREADABLE),
        (Server(200, POD.replace(b'"42"', b'"x"')), ApiErrorReason.UNREADABLE),
        (Server(200, POD.replace(b'"42"', b"42")), ApiErrorReason.UNREADABLE),
    ],
)
def test_what_cannot_be_told_is_no_answer(server: Server, reason: ApiErrorReason) -> None:
    with pytest.raises(ApiError, match="pod team-a/p cannot be read") as caught:
        read(server)
    assert caught.value.reason is reason


def test_a_name_stays_one_segment_of_the_path() -> None:
    server = Server(404)
    LiveReader(server).read_pod_revision("a/b", "../c", "u")
    assert server.asked[0][0] == "/api/v1/namespaces/a%2Fb/pods/..%2Fc"


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (("apps", "deployments"), "/apis/apps/v1/namespaces/team-a/deployments/w"),
        (("", "replicationcontrollers"), "/api/v1/namespaces/team-a/replicationcontrollers/w"),
    ],
)
def test_a_workload_is_given_as_it_is_written(resource: tuple[str, str], path: str) -> None:
    server = Server(200, POD)
    assert LiveReader(server).read_workload(resource, "team-a", "w") == POD
    assert server.asked == [(path, {})]


def test_no_workload_is_none_and_one_that_may_not_be_read_is_no_answer() -> None:
    resource = ("apps", "statefulsets")
    assert LiveReader(Server(404)).read_workload(resource, "team-a", "w") is None
    with pytest.raises(ApiError, match="statefulsets team-a/w cannot be read: HTTP 403") as caught:
        LiveReader(Server(403)).read_workload(resource, "team-a", "w")
    assert caught.value.reason is ApiErrorReason.REFUSED
