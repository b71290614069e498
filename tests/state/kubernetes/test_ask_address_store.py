"""The ConfigMap with the address of asks: its requests, and the meaning of responses."""

import json

import pytest

from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError
from tallygate.state.kubernetes.ask_address_store import AskAddress, AskAddressStore
from tests.state.kubernetes.scripted_api_server import respond, respond_json, server

PATH = "/api/v1/namespaces/own/configmaps/tallygate-ask"


def test_an_address_is_read_and_what_is_missing_is_empty() -> None:
    full = respond_json(200, data={"url": "https://ask", "ca.crt": "pem", "other": "x"})
    with server(full, respond_json(200, kind="ConfigMap")) as scripted:
        store = AskAddressStore(scripted.client_config, "own")
        assert store.read() == AskAddress("https://ask", "pem")
        assert store.read() == AskAddress("", "")
    assert [request.path for request in scripted.requests] == [PATH, PATH]


def test_an_address_is_merged_into_the_config_map() -> None:
    with server(respond_json(200, kind="ConfigMap")) as scripted:
        AskAddressStore(scripted.client_config, "own").write(AskAddress("https://ask", "pem"))
    (request,) = scripted.requests
    assert (request.method, request.path) == ("PATCH", PATH)
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"data": {"url": "https://ask", "ca.crt": "pem"}}


def test_a_refusal_and_an_answer_of_something_else_are_errors() -> None:
    refusal = respond_json(403, kind="Status", message="no", code=403)
    with server(refusal, refusal, respond(200, b"<html>")) as scripted:
        store = AskAddressStore(scripted.client_config, "own")
        with pytest.raises(ApiError):
            store.read()
        with pytest.raises(ApiError):
            store.write(AskAddress("https://ask", "pem"))
        with pytest.raises(TallygateError, match="no ConfigMap"):
            store.read()
