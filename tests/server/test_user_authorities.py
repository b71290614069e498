"""The CAs of users: read from the API server, kept while it cannot be read, and logged when that begins and ends."""

from tallygate.server.controllers.user_authorities import UserAuthorities
from tests.server.app_harness import Log
from tests.state.kubernetes.scripted_api_server import respond, respond_json, server

PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def test_the_authorities_are_read_and_stay_while_the_api_server_refuses_them() -> None:
    log = Log()
    answers = (
        respond_json(200, data={"client-ca-file": "first", "requestheader-client-ca-file": "proxy"}),
        respond_json(403, kind="Status", message="no", code=403),
        respond(200, b"<html>"),
        respond_json(200, data={"client-ca-file": "second"}),
    )
    with server(*answers) as scripted:
        authorities = UserAuthorities(scripted.client_config, log.logger)
        assert authorities.get_bundle() == b""
        found = []
        for _ in answers:
            authorities.worker.run_once()
            found.append(authorities.get_bundle())
    assert found == [b"first", b"first", b"first", b"second"]
    assert {request.path for request in scripted.requests} == {PATH}
    assert [line["event"] for line in log.lines] == ["user-authorities-unknown"] * 2 + ["user-authorities-known"]


def test_a_cluster_without_certificates_of_users_has_no_authorities() -> None:
    with server(respond_json(200, data={})) as scripted:
        authorities = UserAuthorities(scripted.client_config, Log().logger)
        authorities.worker.run_once()
        assert authorities.get_bundle() == b""
        assert authorities.worker.check().detail == {"known": False}
