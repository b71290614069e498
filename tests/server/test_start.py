"""The errors of a server that cannot start: their reason and remedy, before it listens."""

import socket
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tallygate.certs.certificate_names import parse_names
from tallygate.certs.renewal import issue
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.policy.store import PolicyError
from tallygate.webhook.server.https.https_server import open_listener
from tallygate.webhook.server.lifecycle import Lifecycle, ServeError
from tallygate.webhook.server.serve import serve
from tallygate.webhook.server.settings.table import Settings
from tallygate.webhook.server.settings.value_types import Address
from tallygate.webhook.server.telemetry.metrics import ServerMetrics, Telemetry
from tallygate.webhook.server.web.flask_app import create_app
from tests.server.app_harness import Log
from tests.server.tiny import TinyGate

ANYWHERE = Address("127.0.0.1", 0)


def create_lifecycle(settings: Settings) -> Lifecycle:
    return Lifecycle(partial(create_app, TinyGate().admit), settings, Telemetry(Log().logger, ServerMetrics("0")))


def test_the_error_about_a_missing_certificate_names_the_command_to_issue_one() -> None:
    with pytest.raises(ServeError, match="tallygate certs issue"):
        create_lifecycle(Settings(listen=ANYWHERE))


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


def test_a_relay_and_client_certificates_exclude_each_other(tmp_path: Path) -> None:
    chain, key, client_ca = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    settings = Settings(listen=ANYWHERE, tls_cert=chain, tls_key=key, client_ca_file=client_ca, relay_dir=tmp_path)
    with pytest.raises(ServeError, match="relay_dir and client_ca_file exclude each other"):
        serve(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_listens_on_both_families(host: str) -> None:
    listener = open_listener(Address(host, 0), 16)
    with listener, socket.create_connection(("::1" if ":" in host else host, listener.getsockname()[1])):
        assert listener.getsockname()[0] == host


def test_a_gate_without_a_cluster_loads_no_module_that_only_a_cluster_needs() -> None:
    """Keep the start short: these modules would take a third of it."""
    program = "import sys; import tallygate.webhook.cli.serve.command;"
    program += (
        "print([each for each in ('kubernetes', 'numpy', 'urllib3', 'tallygate.webhook.audit') if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert (done.stdout, done.stderr) == ("[]\n", "")
