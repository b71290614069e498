"""The rights of askers: what the API server is asked, which answers are believed, and how often."""

import json
from http import HTTPStatus
from threading import Event

import pytest

from tallygate.server.asking.access import REVIEWS_OF_USER, AccessReviewer, ResourceAccess
from tallygate.server.asking.identity import Asker
from tests.kube.scripted_server import FakeClock
from tests.server.asking.review_answers import BROKEN, catch_ask_error, respond_after, respond_review, run_at_once
from tests.state.kubernetes.scripted_api_server import ScriptedApiServer, respond_json, server

ANN = Asker("ann", "u-ann", ("team-a",), (("scopes", ("x", "y")),))
CREATE = ResourceAccess("create", "batch", "jobs", "team-a")
ALLOWED = respond_review({"allowed": True, "reason": "RBAC: allowed by RoleBinding secret/role"})
FORBIDDEN = respond_review({"allowed": False})


def reviewer(scripted: ScriptedApiServer, clock: FakeClock) -> AccessReviewer:
    """Return a reviewer that asks the server."""
    return AccessReviewer(scripted.client_config, clock.now)


def test_the_whole_asker_and_the_whole_access_are_sent() -> None:
    with server(ALLOWED, FORBIDDEN) as scripted:
        rights = reviewer(scripted, FakeClock())
        assert rights.may(ANN, CREATE)
        assert not rights.may(ANN, ResourceAccess("list", "", "nodes", name="n1"))
    assert {(each.method, each.path) for each in scripted.requests} == {
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    }
    first, second = (json.loads(request.body) for request in scripted.requests)
    assert first == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "ann",
            "uid": "u-ann",
            "groups": ["team-a"],
            "extra": {"scopes": ["x", "y"]},
            "resourceAttributes": {
                "verb": "create",
                "group": "batch",
                "resource": "jobs",
                "namespace": "team-a",
                "name": "",
            },
        },
    }
    assert second["spec"]["resourceAttributes"] == {
        "verb": "list",
        "group": "",
        "resource": "nodes",
        "namespace": "",
        "name": "n1",
    }


@pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": True, "denied": True}, {"denied": False}])
def test_only_what_is_allowed_and_not_denied_is_allowed(status: dict[str, bool]) -> None:
    with server(respond_review(status)) as scripted:
        assert not reviewer(scripted, FakeClock()).may(ANN, CREATE)


@pytest.mark.parametrize("name", [*BROKEN, "a truth that is text", "a truth that is a number"])
def test_an_api_server_that_cannot_be_understood_is_503_and_asked_again(name: str) -> None:
    broken = BROKEN | {
        "a truth that is text": respond_review({"allowed": "true"}),
        "a truth that is a number": respond_review({"allowed": 1}),
    }
    with server(broken[name], ALLOWED) as scripted:
        rights = reviewer(scripted, FakeClock())
        error = catch_ask_error(lambda: rights.may(ANN, CREATE))
        assert error.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert error.message.startswith("the API server cannot be asked what you may do: ")
        assert rights.may(ANN, CREATE)


def test_a_server_without_the_right_to_review_says_so() -> None:
    with server(respond_json(403, message="forbidden")) as scripted:
        error = catch_ask_error(lambda: reviewer(scripted, FakeClock()).may(ANN, CREATE))
    assert "this server has no right to create subjectaccessreviews" in error.message


@pytest.mark.parametrize(
    "access",
    [
        CREATE._replace(namespace="n" * 254),
        CREATE._replace(namespace="t\xe4m"),
        CREATE._replace(namespace="\ud800"),
        CREATE._replace(resource="x" * 1_000_000),
        CREATE._replace(name="\N{BANANA}"),
    ],
)
def test_a_text_that_cannot_be_a_name_is_denied_without_a_review(access: ResourceAccess) -> None:
    with server() as scripted:
        assert not reviewer(scripted, FakeClock()).may(ANN, access)


def test_answers_are_kept_for_ten_seconds_by_the_whole_asker_and_access() -> None:
    clock = FakeClock()
    with server(ALLOWED, FORBIDDEN, FORBIDDEN, FORBIDDEN, FORBIDDEN, ALLOWED) as scripted:
        rights = reviewer(scripted, clock)
        others = (Asker("ann", "u-ann", ("team-b",), ANN.extra), Asker("ann", "u-ann", ("team-a",)))
        for _ in range(3):
            assert rights.may(Asker("ann", "u-ann", ("team-a",), (("scopes", ("x", "y")),)), CREATE)
            assert not rights.may(ANN, CREATE._replace(namespace="team-b"))
            assert not any(rights.may(other, CREATE) for other in others)
        assert len(scripted.requests) == 4
        clock.time += 10
        assert not rights.may(ANN, CREATE)
        assert rights.may(ANN, CREATE._replace(namespace="team-b"))


def test_threads_with_one_question_cause_one_review() -> None:
    arrived, go = Event(), Event()

    def meanwhile() -> None:
        assert arrived.wait(30)
        go.set()

    with server(respond_after(arrived, go, ALLOWED)) as scripted:
        rights = reviewer(scripted, FakeClock())
        assert run_at_once(8, lambda: rights.may(ANN, CREATE), meanwhile) == [True] * 8


def test_a_user_with_many_namespaces_is_limited_and_no_other_user_notices() -> None:
    clock = FakeClock()
    with server(*[FORBIDDEN] * (REVIEWS_OF_USER.burst + 2)) as scripted:
        rights = reviewer(scripted, clock)
        for number in range(REVIEWS_OF_USER.burst):
            rights.may(ANN, CREATE._replace(namespace=f"n{number}"))
        error = catch_ask_error(lambda: rights.may(ANN, CREATE))
        assert (error.status, error.retry_after) == (HTTPStatus.TOO_MANY_REQUESTS, 1)
        assert not rights.may(ANN, CREATE._replace(namespace="n0"))
        assert not rights.may(Asker("bob"), CREATE)
        clock.time += 1
        assert not rights.may(ANN, CREATE)
