"""Pages of a list: to their end, over an expired token, past what passes, and not for ever."""

import re
from collections.abc import Sequence

import msgspec
import pytest

from tests.state.kubernetes.server import Play, hang_up, says, sends, server
from webhook.audit.listing import AuditError, PageReader
from webhook.kube.client import ApiClient

PATH = "/apis/apps/v1/deployments"


def page(*names: str, more: str = "") -> Play:
    """A page of objects with these names."""
    return says(200, metadata={"resourceVersion": "5", "continue": more}, items=[{"name": each} for each in names])


def status(code: int, message: str = "no", **metadata: str) -> Play:
    """A refusal."""
    return says(code, kind="Status", message=message, code=code, metadata=metadata)


def listed(*plays: Play) -> tuple[list[list[str]], list[str], list[float]]:
    """The names in each page, what was asked for, and how long was waited."""
    waits: list[float] = []
    with server(*plays) as played:
        pages = PageReader(ApiClient(played.client_config), 2, waits.append)
        found = [names(items) for items in pages.list_pages(PATH)]
    return found, [asked.path for asked in played.asked], waits


def names(items: Sequence[msgspec.Raw]) -> list[str]:
    """The names of objects."""
    return [msgspec.json.decode(item)["name"] for item in items]


def failure(*plays: Play) -> str:
    """Why a list cannot be had."""
    with pytest.raises(AuditError) as caught:
        listed(*plays)
    return re.sub(r"http://127.0.0.1:\d+", "SERVER", str(caught.value))


def test_a_list_is_read_page_by_page() -> None:
    found, asked, waits = listed(page("a", "b", more="next/1"), page("c"))
    assert found == [["a", "b"], ["c"]]
    assert asked == [f"{PATH}?limit=2", f"{PATH}?limit=2&continue=next%2F1"]
    assert waits == []


def test_an_expired_list_is_carried_on_by_the_token_that_is_offered() -> None:
    expired = status(410, **{"continue": "now"})
    found, asked, _ = listed(page("a", more="old"), expired, page("b"))
    assert found == [["a"], ["b"]]
    assert asked[-1] == f"{PATH}?limit=2&continue=now"


def test_an_expired_list_without_an_offer_is_given_up() -> None:
    said = failure(page("a", more="old"), status(410, "too old"))
    assert said == f"{PATH} cannot be listed at SERVER: the API server says 410: too old"


def test_a_kind_that_is_not_served_has_no_objects() -> None:
    assert listed(status(404))[0] == []


def test_what_passes_is_waited_for() -> None:
    found, _, waits = listed(status(429), hang_up, status(503), page("a"))
    assert found == [["a"]]
    assert waits == [1.0, 4.0, 15.0]


def test_as_long_as_the_api_server_asks_but_not_for_ever() -> None:
    def busy(seconds: int) -> Play:
        return says(429, kind="Status", code=429, details={"retryAfterSeconds": seconds})

    assert listed(busy(7), busy(3600), page("a"))[2] == [7.0, 60.0]


def test_what_does_not_pass_is_given_up() -> None:
    assert "says 500" in failure(*[status(500)] * 4)


def test_a_list_that_may_not_be_read_says_which_right_is_missing() -> None:
    said = failure(status(403, "deployments.apps is forbidden"))
    assert said.endswith("says 403: deployments.apps is forbidden; the audit must be allowed to list it")


@pytest.mark.parametrize(
    "broken",
    [says(200), says(200, items=3, metadata={}), sends(200, b"<html>"), sends(200, b'{"metadata":{},"items":[')],
)
def test_what_is_no_list_is_said(broken: Play) -> None:
    assert f"{PATH} cannot be listed at SERVER: no list came: " in failure(broken)


def test_a_list_without_an_end_ends() -> None:
    assert "does not end" in failure(page("a", more="x"), page("b", more="x"))
