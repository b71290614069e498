"""`serve --tls-secret`: certificates from the API server to the served files, with log lines, metrics and readiness."""

import base64
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from tallygate.cli.serve import certificate_controller
from tallygate.cli.serve.certificate_controller import run_certificate_controller
from tallygate.server.interfaces import ServerSetup
from tallygate.server.lifecycle import ServeError
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.metrics import ServerMetrics, Telemetry
from tallygate_certs.secret_state import compute_fingerprint, encode_pem, parse_secret_state
from tallygate_certs.served_files import ServedFiles
from tests.certs.api_server import CertificateApiServer, run_api_server
from tests.server.app_harness import Log
from tests.server.process import eventually

SECRET = "own/tls"  # noqa: S105  its name
PATH = "/api/v1/namespaces/own/secrets/tls"
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass
class GateSetup:
    """An API server, and the settings, the log and the metrics of a gate."""

    api: CertificateApiServer
    settings: Settings
    log: Log = field(default_factory=Log)
    metrics: ServerMetrics = field(default_factory=lambda: ServerMetrics("1"))

    @contextmanager
    def run_controller(self, **settings: Any) -> Iterator[ServerSetup]:
        """Run the controller of a new process with these settings changed."""
        self.metrics = ServerMetrics("1")
        with run_certificate_controller(
            replace(self.settings, **settings), Telemetry(self.log.logger, self.metrics)
        ) as setup:
            yield setup

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log lines of one event."""
        return [line for line in self.log.lines if line["event"] == name]

    def get_served_fingerprint(self) -> str:
        """Return the fingerprint of the certificate in the folder, or an empty string."""
        assert self.settings.tls_dir
        serving_pair = ServedFiles(self.settings.tls_dir).read(datetime.now(UTC))
        return compute_fingerprint(serving_pair.certificate) if serving_pair else ""

    def count_reads(self) -> int:
        """Return the number of reads that the API server has received."""
        return self.api.methods.count("GET")

    def read_metric(self, series: str) -> float:
        """Return the value of a metric."""
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series + " "))

    def get_bundle(self, path: str) -> str:
        """Return the CA bundle of the first webhook of a configuration."""
        found: str = self.api.objects[path]["webhooks"][0]["clientConfig"].get("caBundle", "")
        return found

    def request_renewal(self, target: str) -> None:
        """Annotate the Secret, as kubectl annotate does."""
        metadata = self.api.objects[PATH]["metadata"]
        metadata["annotations"]["tallygate.dev/renew"] = target
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GateSetup]:
    """Yield a gate without a Secret, whose webhook configurations have empty bundles."""
    monkeypatch.setattr(certificate_controller, "_RECONCILE_SECONDS", 0.1)
    monkeypatch.setattr(certificate_controller, "_MIN_RECONCILE_SECONDS", 0.05)
    api = CertificateApiServer()
    for kind in _KINDS:
        api.add(kind, "tallygate", [{"clientConfig": {"url": "https://10.1.2.3:8443/v1"}}])
    with run_api_server(api, tmp_path / "server") as path:
        yield GateSetup(
            api,
            Settings(tls_secret=SECRET, tls_dir=tmp_path / "served", ca_propagation_delay=0.1, kubeconfig=path),
        )


def _read_check(setup: ServerSetup) -> dict[str, Any]:
    (check,) = setup.checks
    found = check()
    assert found.ready
    return dict(found.detail)


def test_a_missing_secret_is_created_published_and_served(gate: GateSetup) -> None:
    with gate.run_controller() as setup:
        folder = gate.settings.tls_dir
        assert folder
        assert (setup.settings.tls_cert, setup.settings.tls_key) == (folder / "tls.crt", folder / "tls.key")
        data = {name: base64.b64decode(text) for name, text in gate.api.objects[PATH]["data"].items()}
        state = parse_secret_state(data, {})
        assert state.serving
        assert (
            gate.get_served_fingerprint()
            == compute_fingerprint(state.serving.certificate)
            == _read_check(setup)["servedFingerprint"]
        )
        for path, found in gate.api.objects.items():
            if path != PATH:
                assert base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]) == encode_pem(
                    state.ca_certificates
                )
        assert [line["step"] for line in gate.events("certificate-rotated")] == ["rebuild", "publish"]
        assert gate.read_metric('tallygate_certificate_steps_total{step="publish"}') == 1
    assert not (folder / "ca.key").exists()
    for key in (data["tls.key"], data["ca.key"]):
        assert key.decode().splitlines()[1] not in gate.log.text


def test_with_an_address_of_asks_the_certificate_has_its_host_and_the_name_of_its_service(gate: GateSetup) -> None:
    with gate.run_controller(ask_url="https://ask.example.com:8443"):
        data = {name: base64.b64decode(text) for name, text in gate.api.objects[PATH]["data"].items()}
    state = parse_secret_state(data, {})
    assert state.serving
    names = state.serving.read_names()
    assert names
    assert {"tallygate.own.svc", "tallygate-ask.own.svc", "ask.example.com"} <= set(names.to_texts())


def test_a_temporary_folder_is_deleted_at_the_end(gate: GateSetup) -> None:
    with gate.run_controller(tls_dir=None) as setup:
        folder = setup.settings.tls_cert
        assert folder
        assert folder.exists()
    assert not folder.parent.exists()


def test_an_error_without_a_temporary_folder_names_the_setting(
    gate: GateSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with (
        pytest.raises(ServeError, match=r"no temporary folder .*; name one by tls_dir"),
        gate.run_controller(tls_dir=None),
    ):
        pass


@pytest.mark.parametrize("what", ["certificate", "authority"])
def test_a_requested_renewal_is_done_while_serving(gate: GateSetup, what: str) -> None:
    with gate.run_controller():
        before = gate.get_served_fingerprint()
        gate.request_renewal(what)
        assert eventually(lambda: gate.get_served_fingerprint() != before)
        assert eventually(
            lambda: gate.events("certificate-installed")[-1]["certificate"] == gate.get_served_fingerprint()
        )
        assert "tallygate.dev/renew" not in gate.api.objects[PATH]["metadata"]["annotations"]


def test_a_new_webhook_configuration_gets_its_bundle_at_once(gate: GateSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_controller, "_RECONCILE_SECONDS", 600.0)
    configurations = {path: gate.api.objects.pop(path) for path in list(gate.api.objects)}
    with gate.run_controller():
        assert eventually(lambda: all(gate.api.watchers[path] for path in (PATH, *configurations)))
        for _ in range(2):  # it is created, then overwritten by another client
            with gate.api.condition:
                gate.api.objects |= deepcopy(configurations)
            gate.api.notify_watchers()
            assert eventually(lambda: all(map(gate.get_bundle, configurations)))
            for path in configurations:
                configurations[path]["metadata"]["resourceVersion"] += "0"
        gate.request_renewal("certificate")
        before = gate.get_served_fingerprint()
        gate.api.notify_watchers()
        assert eventually(lambda: gate.get_served_fingerprint() != before)


def test_a_gate_without_the_watch_permission_reports_it_and_polls(gate: GateSetup) -> None:
    gate.api.may_watch = False
    with gate.run_controller() as setup:
        assert eventually(lambda: "unwatched" in _read_check(setup))
        assert "403" in str(_read_check(setup)["unwatched"])
        before = gate.get_served_fingerprint()
        gate.request_renewal("certificate")
        assert eventually(lambda: gate.get_served_fingerprint() != before)


def test_an_invalid_request_is_logged_once(gate: GateSetup) -> None:
    with gate.run_controller() as setup:
        gate.request_renewal("everything")
        assert eventually(lambda: "failure" in _read_check(setup))
        seen = gate.count_reads()
        assert eventually(lambda: gate.count_reads() > seen + 2)
    (line,) = gate.events("certificate-request-rejected")
    assert line["message"] == "the annotation tallygate.dev/renew is 'everything'; write certificate or authority"


def test_a_failure_while_serving_and_its_end_are_logged_once(gate: GateSetup) -> None:
    with gate.run_controller() as setup:
        before = gate.get_served_fingerprint()
        gate.api.fixed_response = (403, b'{"message": "gate may not"}')
        seen = gate.count_reads()
        assert eventually(lambda: gate.count_reads() > seen + 2)
        assert "403: gate may not" in _read_check(setup)["failure"]
        gate.api.fixed_response = None
        assert eventually(lambda: "failure" not in _read_check(setup))
        assert gate.get_served_fingerprint() == before
    (line,) = gate.events("certificate-rotation-failed")
    assert (line["level"], line["days_left"]) == ("warning", 89)
    assert len(gate.events("certificate-rotation-recovered")) == 1


def test_the_stored_certificate_is_served_while_the_api_server_fails(gate: GateSetup) -> None:
    with gate.run_controller():
        before = gate.get_served_fingerprint()
    gate.api.fixed_response = (503, b"")
    with gate.run_controller() as setup:
        assert gate.get_served_fingerprint() == before == _read_check(setup)["servedFingerprint"]


def test_a_start_without_a_certificate_fails_with_the_reason(gate: GateSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_controller, "_START_TIMEOUT_SECONDS", 0.2)
    gate.api.fixed_response = (403, b'{"message": "gate may not"}')
    with pytest.raises(ServeError, match=r"nothing to serve with from the Secret own/tls: cannot read .* gate may not"):
        _start(gate.run_controller)


def test_an_overwritten_bundle_is_restored(gate: GateSetup) -> None:
    with gate.run_controller():
        path = next(path for path in gate.api.objects if path != PATH)
        client = gate.api.objects[path]["webhooks"][0]["clientConfig"]
        before = client.pop("caBundle")
        assert eventually(lambda: client.get("caBundle") == before)


def test_a_read_only_folder_is_an_error(gate: GateSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_controller, "_START_TIMEOUT_SECONDS", 0.1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ServeError, match=r"file: cannot be written: .*; it must be a volume in memory"):
        _start(lambda: gate.run_controller(tls_dir=tmp_path / "file"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"tls_cert": Path("tls.crt")},
            "tls_secret takes the place of tls_cert and tls_key: give the one or the others",
        ),
        ({"tls_secret": "tls"}, "tls_secret 'tls': write NAMESPACE/NAME, as in tallygate-system/tallygate-tls"),
        ({"tls_secret": "a/b/c"}, "write NAMESPACE/NAME"),
        ({"tls_secret": "A_b/c"}, "is neither a DNS name nor an IP address"),
        ({"kubeconfig": Path("nowhere")}, "there is no kubeconfig: nowhere does not exist"),
        ({"kubeconfig": None}, "this is not a pod with a ServiceAccount token"),
    ],
)
def test_invalid_settings_fail_before_any_request(gate: GateSetup, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ServeError, match=message):
        _start(lambda: gate.run_controller(**settings))
    assert json.dumps(gate.api.methods) == "[]"


def _start(start: Callable[[], Any]) -> None:
    with start():
        pass
