"""Live reads of one object."""

from collections.abc import Mapping

import pytest

from tallygate.accounting.charge import ConsumerKind
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.transport import Response, WatchStream
from tallygate.state.informers.live_reader import BoundedWorkloadReader, LiveReader

POD = b'{"kind": "Pod", "metadata": {"uid": "u1", "resourceVersion": "42"}}'


class Server:
    """A transport that sends one response to every request, and records the requests."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        self._response = Response(status, body)
        self.requests: list[tuple[str, Mapping[str, str]]] = []

    def get(self, path: str, query: Mapping[str, str]) -> Response:
        """Return the response."""
        self.requests.append((path, query))
        return self._response

    def watch(self, path: str, query: Mapping[str, str]) -> WatchStream | Response:
        """Fail: a live read does not watch."""
        raise AssertionError((path, query))


def read(server: Server, uid: str = "u1") -> int | None:
    """Return the revision of the pod that a live read returns."""
    return LiveReader(server).read_revision(ConsumerKind.POD, "team-a", "p", uid)


def test_a_stored_pod_is_read_with_its_revision() -> None:
    server = Server(200, POD)
    assert read(server) == 42
    assert server.requests == [("/api/v1/namespaces/team-a/pods/p", {})]  # without a resourceVersion: from the quorum


@pytest.mark.parametrize("server", [Server(404), Server(200, POD.replace(b"u1", b"u2")), Server(200, b"{}")])
def test_a_missing_or_other_pod_is_none(server: Server) -> None:
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
def test_an_unreadable_pod_raises_the_reason(server: Server, reason: ApiErrorReason) -> None:
    with pytest.raises(ApiError, match="pod team-a/p cannot be read") as caught:
        read(server)
    assert caught.value.reason is reason


def test_a_name_stays_one_segment_of_the_path() -> None:
    server = Server(404)
    LiveReader(server).read_revision(ConsumerKind.POD, "a/b", "../c", "u")
    assert server.requests[0][0] == "/api/v1/namespaces/a%2Fb/pods/..%2Fc"


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (("apps", "v1", "deployments"), "/apis/apps/v1/namespaces/team-a/deployments/w"),
        (("argoproj.io", "v1alpha1", "rollouts"), "/apis/argoproj.io/v1alpha1/namespaces/team-a/rollouts/w"),
        (("", "v1", "replicationcontrollers"), "/api/v1/namespaces/team-a/replicationcontrollers/w"),
    ],
)
def test_a_workload_is_read_as_it_is_stored(resource: tuple[str, str, str], path: str) -> None:
    server = Server(200, POD)
    assert LiveReader(server).read_workload(resource, "team-a", "w") == POD
    assert server.requests == [(path, {})]


def test_a_missing_workload_is_none_and_a_forbidden_one_raises_the_reason() -> None:
    resource = ("apps", "v1", "statefulsets")
    assert LiveReader(Server(404)).read_workload(resource, "team-a", "w") is None
    with pytest.raises(ApiError, match="statefulsets team-a/w cannot be read: HTTP 403") as caught:
        LiveReader(Server(403)).read_workload(resource, "team-a", "w")
    assert caught.value.reason is ApiErrorReason.REFUSED


def test_the_reads_for_reviews_at_a_time_are_bounded_and_each_end_lets_another_begin() -> None:
    """Let a read begin another one; the sender of forged reviews would begin as many as he likes."""
    begun: list[str] = []

    class _Nested(LiveReader):
        def __init__(self) -> None:
            """Have no transport: no request is sent."""

        def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
            begun.append(name)
            return reader.read_workload(resource, namespace, f"{name}'")

    reader = BoundedWorkloadReader(_Nested(), max_reads=3)
    for _ in range(2):
        with pytest.raises(ApiError, match="too many reads for reviews are in progress"):
            reader.read_workload(("apps", "v1", "deployments"), "team-a", "web")
    assert begun == ["web", "web'", "web''"] * 2
