"""The address of asks: written by a gate with its own rights alone, read by every user, and changed by none."""

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest

from e2e.api import Object, api
from e2e.command_output import run_kubectl
from e2e.gates.asks import COMPONENT
from e2e.gates.process import GateProcess
from e2e.namespaces import gates_namespace
from e2e.ports import Site
from e2e.self_registration import run_registering_gate
from e2e.tenant import tenant
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.state.kubernetes.ask_address_store import ASK_NAME

_URL: Final = "https://ask.example.com:8443"
_PATH: Final = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{ASK_NAME}"
_FILES: Final = tuple(f"--filename={COMPONENT / name}" for name in ("address.yaml", "address-rbac.yaml"))
_WITHIN: Final = 240.0  # seconds


@pytest.fixture
def publishing_gate(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate with the objects of the component that are about the address."""
    gates_namespace(site.cluster)
    run_kubectl(site.cluster, "apply", *_FILES)
    try:
        with run_registering_gate(site, tmp_path, arguments=(f"--ask-url={_URL}",)) as gate:
            yield gate
    finally:
        run_kubectl(site.cluster, "delete", *_FILES)


def _read(site: Site) -> Object:
    data: Object = api(site.cluster.kubeconfig).get(_PATH).get("data", {})
    return data


def test_the_gate_publishes_the_address_and_every_user_may_read_it(
    site: Site, publishing_gate: GateProcess, tmp_path: Path
) -> None:
    expected = {"url": _URL, "ca.crt": (publishing_gate.certificates / "ca.crt").read_text(encoding="ascii")}
    until("the address is published", lambda: _read(site) == expected, _WITHIN, publishing_gate.log)
    api(site.cluster.kubeconfig).patch(_PATH, {"data": {"ca.crt": "overwritten"}})
    until("it is published again", lambda: _read(site) == expected, _WITHIN, publishing_gate.log)
    with tenant(site.cluster, tmp_path) as someone:
        ask = partial(someone.api.ask, kind="application/merge-patch+json")
        until("a tenant reads it", lambda: ask("GET", _PATH).status == HTTPStatus.OK, _WITHIN)
        assert ask("GET", _PATH).object()["data"] == expected
        for method, path in (
            ("PATCH", _PATH),
            ("DELETE", _PATH),
            ("GET", _PATH.rpartition("/")[0]),
            ("GET", f"{_PATH}-other"),
        ):
            body = {"data": {"url": "https://elsewhere"}} if method == "PATCH" else None
            assert ask(method, path, body).status == HTTPStatus.FORBIDDEN
    assert publishing_gate.readiness()["checks"]["ask-address"] == {"ready": True, "url": _URL}
