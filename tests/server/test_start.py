"""The errors of a server that cannot start: their reason and remedy, before it listens."""

import socket
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tallygate.errors import TallygateError
from tallygate.policy.store import PolicyError
from tallygate.server.asking.gate_inspection import Inspection, InspectionRequest
from tallygate.server.https.tls_files import CertificateError
from tallygate.server.lifecycle import Lifecycle, ServeError
from tallygate.server.listener import open_listener
from tallygate.server.serve import serve
from tallygate.server.serve_asks import serve_asks
from tallygate.server.settings.table import Settings
from tallygate.server.settings.value_types import Address
from tallygate.server.telemetry.metrics import ServerMetrics, Telemetry
from tallygate.server.web.flask_app import create_app
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.server.app_harness import Log
from tests.server.tiny import TinyGate

ANYWHERE = Address("127.0.0.1", 0)


def create_lifecycle(settings: Settings) -> Lifecycle:
    return Lifecycle(partial(create_app, TinyGate().admit), settings, Telemetry(Log().logger, ServerMetrics("0")))


def test_the_error_about_a_missing_certificate_names_the_command_to_issue_one() -> None:
    with pytest.raises(ServeError, match="tallygate certs issue"):
        create_lifecycle(Settings(listen=ANYWHERE))


def inspect_nothing(_: InspectionRequest) -> Inspection:
    """Fail: no server runs."""
    raise AssertionError


def test_names_of_front_proxies_need_their_ca() -> None:
    """Without a CA the names would seem to restrict what is off."""
    settings = Settings(listen=ANYWHERE, cluster="in-cluster", proxy_names=("front",))
    with pytest.raises(ServeError, match="proxy_ca_file"):
        serve_asks(settings, inspect_nothing)


def test_an_unusable_certificate_is_an_error(tmp_path: Path) -> None:
    settings = Settings(listen=ANYWHERE, tls_cert=tmp_path / "c", tls_key=tmp_path / "k")
    with pytest.raises(TallygateError, match="No such file"):
        create_lifecycle(settings)


def test_an_address_in_use_is_an_error(tmp_path: Path) -> None:
    issue(tmp_path, parse_names(["localhost"]), datetime.now(UTC))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(*taken.getsockname())
        settings = Settings(listen=address, tls_cert=tmp_path / "tls.crt", tls_key=tmp_path / "tls.key")
        with pytest.raises(ServeError, match=rf"cannot listen on {address}: Address already in use"):
            create_lifecycle(settings)


def test_broken_policies_are_an_error_with_their_findings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Nonsense\n")
    with pytest.raises(PolicyError, match=r"a\.yaml:1"):
        serve(Settings(listen=ANYWHERE, policies=(tmp_path,)))


@pytest.mark.parametrize("missing", ["client_ca_file", "relay_dir"])
def test_names_of_clients_need_an_authority_and_a_relay_that_checks_them(tmp_path: Path, missing: str) -> None:
    issue(tmp_path, parse_names(["localhost"]), datetime.now(UTC))
    chain, key, client_ca = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    settings = Settings(
        listen=ANYWHERE,
        tls_cert=chain,
        tls_key=key,
        client_ca_file=None if missing == "client_ca_file" else client_ca,
        relay_dir=None if missing == "relay_dir" else tmp_path,
        client_names=("kube-apiserver",),
    )
    with pytest.raises(ServeError, match=r"client_names needs client_ca_file and a relay \(relay_dir"):
        serve(settings)


def test_an_authority_of_clients_that_a_relay_cannot_use_is_an_error(tmp_path: Path) -> None:
    """Use an empty file, which would verify no client."""
    issue(tmp_path, parse_names(["localhost"]), datetime.now(UTC))
    empty = tmp_path / "empty"
    empty.touch()
    settings = Settings(
        listen=ANYWHERE,
        tls_cert=tmp_path / "tls.crt",
        tls_key=tmp_path / "tls.key",
        client_ca_file=empty,
        relay_dir=tmp_path,
    )
    with pytest.raises(CertificateError, match=r"empty: not a PEM certificate"):
        serve(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_listens_on_both_families(host: str) -> None:
    listener = open_listener(Address(host, 0), 16)
    with listener, socket.create_connection(("::1" if ":" in host else host, listener.getsockname()[1])):
        assert listener.getsockname()[0] == host
