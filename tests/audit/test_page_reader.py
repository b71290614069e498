"""Paged lists: read to their end, continued after an expired token, retried after a transient error, and bounded."""

import re
from collections.abc import Sequence

import msgspec
import pytest

from tallygate.audit.listing import AuditError, PageReader
from tallygate.kube.client import ApiClient
from tests.state.kubernetes.scripted_api_server import Responder, hang_up, respond, respond_json, server

PATH = "/apis/apps/v1/deployments"


def create_page(*names: str, more: str = "") -> Responder:
    """Return a page of objects with these names."""
    return respond_json(
        200, metadata={"resourceVersion": "5", "continue": more}, items=[{"name": each} for each in names]
    )


def create_status(code: int, message: str = "no", **metadata: str) -> Responder:
    """Return an error response."""
    return respond_json(code, kind="Status", message=message, code=code, metadata=metadata)


def read_list(*plays: Responder) -> tuple[list[list[str]], list[str], list[float]]:
    """Read a list; return the names of each page, the requested paths and the waits in seconds."""
    waits: list[float] = []
    with server(*plays) as api:
        pages = PageReader(ApiClient(api.client_config), 2, waits.append)
        found = [get_names(items) for items in pages.list_pages(PATH)]
    return found, [request.path for request in api.requests], waits


def get_names(items: Sequence[msgspec.Raw]) -> list[str]:
    """Return the names of objects."""
    return [msgspec.json.decode(item)["name"] for item in items]


def get_error(*plays: Responder) -> str:
    """Return the error of a list that cannot be read."""
    with pytest.raises(AuditError) as caught:
        read_list(*plays)
    return re.sub(r"http://127.0.0.1:\d+", "SERVER", str(caught.value))


def test_a_list_is_read_page_by_page() -> None:
    found, paths, waits = read_list(create_page("a", "b", more="next/1"), create_page("c"))
    assert found == [["a", "b"], ["c"]]
    assert paths == [f"{PATH}?limit=2", f"{PATH}?limit=2&continue=next%2F1"]
    assert waits == []


def test_an_expired_list_continues_with_the_offered_token() -> None:
    expired = create_status(410, **{"continue": "now"})
    found, paths, _ = read_list(create_page("a", more="old"), expired, create_page("b"))
    assert found == [["a"], ["b"]]
    assert paths[-1] == f"{PATH}?limit=2&continue=now"


def test_an_expired_list_without_an_offered_token_is_an_error() -> None:
    error = get_error(create_page("a", more="old"), create_status(410, "too old"))
    assert error == f"{PATH} cannot be listed at SERVER: the API server says 410: too old"


def test_a_kind_that_is_not_served_has_no_objects() -> None:
    assert read_list(create_status(404))[0] == []


def test_a_transient_error_is_retried() -> None:
    found, _, waits = read_list(create_status(429), hang_up, create_status(503), create_page("a"))
    assert found == [["a"]]
    assert waits == [1.0, 4.0, 15.0]


def test_a_retry_waits_as_long_as_the_api_server_asks_up_to_a_limit() -> None:
    def busy(seconds: int) -> Responder:
        return respond_json(429, kind="Status", code=429, details={"retryAfterSeconds": seconds})

    assert read_list(busy(7), busy(3600), create_page("a"))[2] == [7.0, 60.0]


def test_a_lasting_error_ends_the_list() -> None:
    assert "says 500" in get_error(*[create_status(500)] * 4)


def test_a_forbidden_list_names_the_missing_permission() -> None:
    error = get_error(create_status(403, "deployments.apps is forbidden"))
    assert error.endswith("says 403: deployments.apps is forbidden; the audit must be allowed to list it")


@pytest.mark.parametrize(
    "broken",
    [
        respond_json(200),
        respond_json(200, items=3, metadata={}),
        respond(200, b"<html>"),
        respond(200, b'{"metadata":{},"items":['),
    ],
)
def test_an_invalid_list_is_an_error(broken: Responder) -> None:
    assert f"{PATH} cannot be listed at SERVER: no list came: " in get_error(broken)


def test_an_endless_list_is_an_error() -> None:
    assert "does not end" in get_error(create_page("a", more="x"), create_page("b", more="x"))
