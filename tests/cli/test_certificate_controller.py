"""`serve --tls-secret`: from the API server to the files that are served from, and what is told of it."""

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

from certs.secret_state import compute_fingerprint, encode_pem, parse_secret_state
from certs.served_files import ServedFiles
from tests.certs.api_server import Api, serving
from tests.server.building import Log
from tests.server.process import eventually
from webhook.cli.serve import certificate_controller
from webhook.cli.serve.certificate_controller import run_certificate_controller
from webhook.server.interfaces import ServerSetup
from webhook.server.lifecycle import ServeError
from webhook.server.settings.table import Settings
from webhook.server.telemetry.metrics import ServerMetrics, Telemetry

SECRET = "own/tls"  # noqa: S105  its name
PATH = "/api/v1/namespaces/own/secrets/tls"
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass
class Place:
    """An API server, and a gate's settings and voice."""

    api: Api
    settings: Settings
    log: Log = field(default_factory=Log)
    metrics: ServerMetrics = field(default_factory=lambda: ServerMetrics("1"))

    @contextmanager
    def keeping(self, **changed: Any) -> Iterator[ServerSetup]:
        """Keep, as a process that begins anew, with these settings changed."""
        self.metrics = ServerMetrics("1")
        with run_certificate_controller(
            replace(self.settings, **changed), Telemetry(self.log.logger, self.metrics)
        ) as beside:
            yield beside

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of the log about one thing."""
        return [line for line in self.log.lines if line["event"] == name]

    def serves(self) -> str:
        """What the server would find in the folder."""
        assert self.settings.tls_dir
        leaf = ServedFiles(self.settings.tls_dir).read(datetime.now(UTC))
        return compute_fingerprint(leaf.certificate) if leaf else ""

    def counted(self, series: str) -> float:
        """A metric's value."""
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series + " "))

    def bundle(self, path: str) -> str:
        """What a configuration's webhook trusts."""
        found: str = self.api.objects[path]["webhooks"][0]["clientConfig"].get("caBundle", "")
        return found

    def ask(self, what: str) -> None:
        """As kubectl annotate does."""
        metadata = self.api.objects[PATH]["metadata"]
        metadata["annotations"]["tallygate.dev/renew"] = what
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where both configurations trust nobody, and there is no Secret."""
    monkeypatch.setattr(certificate_controller, "_RECONCILE_SECONDS", 0.1)
    monkeypatch.setattr(certificate_controller, "_MIN_RECONCILE_SECONDS", 0.05)
    api = Api()
    for kind in _KINDS:
        api.add(kind, "tallygate", [{"clientConfig": {"url": "https://10.1.2.3:8443/v1"}}])
    with serving(api, tmp_path / "server") as path:
        yield Place(
            api,
            Settings(tls_secret=SECRET, tls_dir=tmp_path / "served", ca_propagation_delay=0.1, kubeconfig=path),
        )


def _said(beside: ServerSetup) -> dict[str, Any]:
    (check,) = beside.checks
    found = check()
    assert found.ready
    return dict(found.detail)


def test_from_nothing_there_is_a_secret_that_is_published_and_served(place: Place) -> None:
    with place.keeping() as beside:
        folder = place.settings.tls_dir
        assert folder
        assert (beside.settings.tls_cert, beside.settings.tls_key) == (folder / "tls.crt", folder / "tls.key")
        data = {name: base64.b64decode(text) for name, text in place.api.objects[PATH]["data"].items()}
        kept = parse_secret_state(data, {})
        assert kept.serving
        assert place.serves() == compute_fingerprint(kept.serving.certificate) == _said(beside)["handedOver"]
        for path, found in place.api.objects.items():
            if path != PATH:
                assert base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]) == encode_pem(
                    kept.ca_certificates
                )
        assert [line["step"] for line in place.events("certificate-rotated")] == ["rebuild", "publish"]
        assert place.counted('tallygate_certificate_steps_total{step="publish"}') == 1
    assert not (folder / "ca.key").exists()
    for key in (data["tls.key"], data["ca.key"]):
        assert key.decode().splitlines()[1] not in place.log.text


def test_the_folder_is_gone_in_the_end_when_none_is_named(place: Place) -> None:
    with place.keeping(tls_dir=None) as beside:
        folder = beside.settings.tls_cert
        assert folder
        assert folder.exists()
    assert not folder.parent.exists()


def test_where_no_file_can_be_written_a_folder_is_asked_for(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with (
        pytest.raises(ServeError, match=r"no temporary folder .*; name one by tls_dir"),
        place.keeping(tls_dir=None),
    ):
        pass


@pytest.mark.parametrize("what", ["certificate", "authority"])
def test_what_is_asked_for_is_done_while_serving(place: Place, what: str) -> None:
    with place.keeping():
        before = place.serves()
        place.ask(what)
        assert eventually(lambda: place.serves() != before)
        assert eventually(lambda: place.events("certificate-installed")[-1]["certificate"] == place.serves())
        assert "tallygate.dev/renew" not in place.api.objects[PATH]["metadata"]["annotations"]


def test_a_registration_is_answered_as_soon_as_it_is_there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_controller, "_RECONCILE_SECONDS", 600.0)
    configurations = {path: place.api.objects.pop(path) for path in list(place.api.objects)}
    with place.keeping():
        assert eventually(lambda: all(place.api.watchers[path] for path in (PATH, *configurations)))
        for _ in range(2):  # it comes, and somebody overwrites it
            with place.api.news:
                place.api.objects |= deepcopy(configurations)
            place.api.tell()
            assert eventually(lambda: all(map(place.bundle, configurations)))
            for path in configurations:
                configurations[path]["metadata"]["resourceVersion"] += "0"
        place.ask("certificate")
        before = place.serves()
        place.api.tell()
        assert eventually(lambda: place.serves() != before)


def test_a_gate_that_may_not_watch_says_so_and_looks_now_and_then(place: Place) -> None:
    place.api.may_watch = False
    with place.keeping() as beside:
        assert eventually(lambda: "unwatched" in _said(beside))
        assert "403" in str(_said(beside)["unwatched"])
        before = place.serves()
        place.ask("certificate")
        assert eventually(lambda: place.serves() != before)


def test_what_cannot_be_asked_for_is_told_once(place: Place) -> None:
    with place.keeping() as beside:
        place.ask("everything")
        assert eventually(lambda: "complaint" in _said(beside))
        seen = place.counted('tallygate_certificate_reconcile_total{result="success"}')
        assert eventually(lambda: place.counted('tallygate_certificate_reconcile_total{result="success"}') > seen + 2)
    (line,) = place.events("certificate-request-rejected")
    assert line["message"] == "the annotation tallygate.dev/renew is 'everything'; write certificate or authority"


def test_a_refusal_while_serving_is_told_once_and_so_is_its_end(place: Place) -> None:
    with place.keeping() as beside:
        before = place.serves()
        place.api.refusal = (403, b'{"message": "gate may not"}')
        assert eventually(lambda: place.counted('tallygate_certificate_reconcile_total{result="failure"}') > 2)
        assert "403: gate may not" in _said(beside)["failure"]
        place.api.refusal = None
        assert eventually(lambda: "failure" not in _said(beside))
        assert place.serves() == before
    (line,) = place.events("certificate-rotation-failed")
    assert (line["level"], line["days_left"]) == ("warning", 89)
    assert len(place.events("certificate-rotation-recovered")) == 1


def test_with_what_the_folder_has_it_serves_while_no_api_server_answers(place: Place) -> None:
    with place.keeping():
        before = place.serves()
    place.api.refusal = (503, b"")
    with place.keeping() as beside:
        assert place.serves() == before == _said(beside)["handedOver"]


def test_with_nothing_to_serve_it_ends_and_says_why(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_controller, "_START_TIMEOUT_SECONDS", 0.2)
    place.api.refusal = (403, b'{"message": "gate may not"}')
    with pytest.raises(ServeError, match=r"nothing to serve with from the Secret own/tls: cannot read .* gate may not"):
        _begin(place.keeping)


def test_a_bundle_that_was_overwritten_is_put_back(place: Place) -> None:
    with place.keeping():
        path = next(path for path in place.api.objects if path != PATH)
        client = place.api.objects[path]["webhooks"][0]["clientConfig"]
        before = client.pop("caBundle")
        assert eventually(lambda: client.get("caBundle") == before)


def test_who_cannot_write_the_folder_says_so(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_controller, "_START_TIMEOUT_SECONDS", 0.1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ServeError, match=r"file: cannot be written: .*; it must be a volume in memory"):
        _begin(lambda: place.keeping(tls_dir=tmp_path / "file"))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"tls_cert": Path("tls.crt")},
            "tls_secret takes the place of tls_cert and tls_key: give the one or the others",
        ),
        ({"tls_secret": "tls"}, "tls_secret 'tls': write NAMESPACE/NAME, as in tallygate-system/tallygate-tls"),
        ({"tls_secret": "a/b/c"}, "write NAMESPACE/NAME"),
        ({"tls_secret": "A_b/c"}, "is neither a DNS name nor an IP address"),
        ({"kubeconfig": Path("nowhere")}, "kubeconfig nowhere does not say where the API server is"),
        ({"kubeconfig": None}, "this is not a pod with a ServiceAccount token"),
    ],
)
def test_what_cannot_be_meant_is_told_at_once(place: Place, changed: dict[str, object], told: str) -> None:
    with pytest.raises(ServeError, match=told):
        _begin(lambda: place.keeping(**changed))
    assert json.dumps(place.api.requests) == "[]"


def _begin(start: Callable[[], Any]) -> None:
    with start():
        pass
