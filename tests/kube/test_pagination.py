"""Complete lists: how often each one is requested."""

import pytest

from tallygate.kube.api_errors import ApiError
from tallygate.kube.pagination import list_all
from tallygate.kube.resource_codec import Replaced
from tests.kube.scripted_server import THINGS, FakeClock, ScriptedServer, error_response, list_page, record, thing


def test_a_resource_that_the_server_does_not_serve_is_requested_once() -> None:
    server = ScriptedServer(FakeClock(), [error_response(404)])
    with pytest.raises(ApiError) as caught:
        list_all(server, THINGS, 500, iter)
    assert caught.value.status == 404
    assert len(server.queries) == 1


def test_a_list_that_expires_between_pages_is_requested_again_with_larger_pages() -> None:
    server = ScriptedServer(
        FakeClock(), [list_page(7, thing("a", 3), next_page="t"), error_response(410), list_page(9, thing("b", 8))]
    )
    assert list_all(server, THINGS, 500, iter) == Replaced([record("b", 8)], 9)
    assert [query["limit"] for query in server.queries] == ["500", "500", "2000"]
