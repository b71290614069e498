"""The real gate on the real server, over TLS."""

import copy
import json
import signal
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallygate_certs.renewal import issue
from tests.server.client_certificates import issue_client_certificate
from tests.server.process import NAMES, ServerProcess, eventually, replace_file

POLICY = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole-things}
spec: {resources: [extended, opaque]}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {include: [team-*]}
  hard: {example.com/dongle: 3}
"""
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "team-a", "uid": "pod-1"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}]},
}


def review(amount: str, uid: str = "u-1") -> bytes:
    pod = copy.deepcopy(POD)
    pod["metadata"] |= {"name": uid, "uid": uid}
    pod["spec"]["containers"][0]["resources"] = {
        "requests": {"example.com/dongle": amount},
        "limits": {"example.com/dongle": amount},
    }
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "team-a",
        "name": uid,
        "userInfo": {"username": "dev"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def get_response(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()["response"]
    return found


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("real")
    (folder / "policies").mkdir()
    (folder / "policies" / "a.yaml").write_text(POLICY)
    with ServerProcess(folder, "tests.server.gate_server", policies=folder / "policies") as server:
        yield server


@pytest.mark.parametrize("http2", [False, True])
def test_http_1_is_served_also_to_a_client_of_http_2(real: ServerProcess, http2: bool) -> None:  # noqa: FBT001 - a column
    with real.client(http2=http2) as client:
        for _ in range(3):
            answer = client.post("/v1/admit/mutate?timeout=10s", content=review("1"))
            assert (answer.http_version, get_response(answer)["allowed"]) == ("HTTP/1.1", True)


def test_a_bad_pod_is_denied_with_a_reason(real: ServerProcess) -> None:
    with real.client() as client:
        denied = get_response(client.post("/v1/admit/mutate", content=review("1500m")))
    assert (denied["allowed"], denied["status"]["code"]) == (False, 422)
    assert "TG101" in denied["status"]["message"]
    assert eventually(lambda: any(line.get("codes") == ["TG101"] for line in real.find_log_lines("decided")))


def test_a_cap_denies_a_pod_that_exceeds_it(real: ServerProcess) -> None:
    with real.client() as client:
        first = get_response(client.post("/v1/admit/validate", content=review("2", "pod-a")))
        second = get_response(client.post("/v1/admit/validate", content=review("2", "pod-b")))
    assert (first["allowed"], second["allowed"], second["status"]["code"]) == (True, False, 403)
    assert "TG201" in second["status"]["message"]


DEEP = b"[" * 100_000 + b"]" * 100_000
HOSTILE_PODS = {
    "depth for a pod": (DEEP, 400),
    "depth in an unknown field": (b'{"spec":{"unread":' + DEEP + b"}}", 400),
    "depth for a quantity": (b'{"spec":{"containers":[{"resources":{"requests":{"a/b":' + DEEP + b"}}}]}}", 400),
    "a text for a spec": (b'{"spec":"x"}', 400),
    "a number for a pod": (b"5", 400),
    "a million digits": (
        b'{"spec":{"containers":[{"resources":{"limits":{"a.b/c":' + b"9" * 1_000_000 + b"}}}]}}",
        200,
    ),
    "an enormous exponent": (b'{"spec":{"containers":[{"resources":{"limits":{"a.b/c":"1e999999999"}}}]}}', 200),
    "seven megabytes of annotation": (b'{"metadata":{"uid":"u","annotations":{"a":"' + b"x" * 7_000_000 + b'"}}}', 200),
}


@pytest.mark.parametrize("case", HOSTILE_PODS)
def test_a_hostile_pod_gets_its_status(real: ServerProcess, case: str) -> None:
    pod, code = HOSTILE_PODS[case]
    before, _, after = review("1").partition(b'"object": ')
    rest = after[after.index(b', "oldObject"') :]
    with real.client() as client:
        for phase in ("mutate", "validate"):
            answer = client.post(f"/v1/admit/{phase}", content=before + b'"object": ' + pod + rest)
            assert (answer.status_code, len(answer.content) < 100_000) == (code, True)
    assert real.status("VmRSS") < 300 * 1024


def test_readiness_has_the_active_policies_and_the_certificate(real: ServerProcess) -> None:
    with real.client() as client:
        assert client.get("/readyz").json() == {"status": "ready"}
    checks = real.monitor("/readyz").json()["checks"]
    assert checks["policies"]["rules"] == checks["policies"]["caps"] == 1
    assert checks["certificate"]["subject"] == "CN=tallygate"
    assert real.get_metric("tallygate_policy_rules") == 1
    assert real.get_metric("tallygate_certificate_not_after_timestamp_seconds") > 1.7e9


def test_a_broken_policy_is_reported_and_leaves_the_last_good_one_active(tmp_path: Path) -> None:
    policy = tmp_path / "policies" / "a.yaml"
    policy.parent.mkdir()
    policy.write_text(POLICY)
    with ServerProcess(tmp_path, "tests.server.gate_server", policies=policy.parent) as server:
        replace_file(policy, b"kind: Nonsense\n")
        assert eventually(lambda: server.get_metric("tallygate_policy_broken") == 1)
        state = server.monitor("/readyz").json()["checks"]["policies"]
        assert (state["ready"], state["rules"]) == (True, 1)
        assert str(policy) in state["broken"][0]
        assert eventually(lambda: bool(server.find_log_lines("policies-broken")))
        replace_file(policy, POLICY.replace("name: dongles", "name: renamed").encode())
        assert eventually(lambda: server.get_metric("tallygate_policy_broken") == 0)
        assert "broken" not in server.monitor("/readyz").json()["checks"]["policies"]


def test_without_policies_the_shipped_ones_are_active(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "tests.server.gate_server") as server:
        assert server.get_metric("tallygate_policy_rules") >= 1
        with server.client() as client:
            assert not get_response(client.post("/v1/admit/mutate", content=review("1500m")))["allowed"]
        assert server.stop(signal.SIGINT) == 0


def test_a_token_in_the_path_is_needed_and_can_be_changed(tmp_path: Path) -> None:
    tokens = tmp_path / "token"
    tokens.write_text("first-first-first-first\n")
    with ServerProcess(tmp_path, token_file=tokens) as server, server.client() as client:
        body = json.dumps({"request": {"uid": "u"}})

        def code(token: str) -> int:
            return client.post(f"/v1/admit/{token}/mutate", content=body).status_code

        assert (code("first-first-first-first"), code("second-second-second-sec")) == (200, 404)
        assert client.post("/v1/admit/mutate", content=body).status_code == 404
        replace_file(tokens, b"second-second-second-sec\nfirst-first-first-first\n")
        assert eventually(lambda: code("second-second-second-sec") == 200)
        assert code("first-first-first-first") == 200
        replace_file(tokens, b"short\n")
        assert eventually(lambda: bool(server.find_log_lines("tokens-reload-failed")))
        assert code("second-second-second-sec") == 200
        assert "second" not in server.log


def test_with_an_authority_only_its_clients_are_served(tmp_path: Path) -> None:
    ours, strangers = tmp_path / "ours", tmp_path / "strangers"
    for folder in (ours, strangers):
        issue(folder, NAMES, datetime.now(UTC))
    with ServerProcess(ours, client_ca_file=ours / "ca.crt") as server:

        def code(certificate: Path | None) -> int:
            context = server.context
            if certificate:
                context.load_cert_chain(certificate)
            return httpx.get(f"https://localhost:{server.port}/healthz", verify=context).status_code

        assert code(issue_client_certificate(ours)) == 200
        for certificate in (None, issue_client_certificate(strangers)):
            with pytest.raises(httpx.TransportError):
                code(certificate)
        assert server.monitor("/readyz").status_code == 200


def test_the_authority_of_clients_may_be_a_certificate_that_signed_itself(tmp_path: Path) -> None:
    """Serve the owner of one key, without an authority that could sign for others."""
    issue(tmp_path, NAMES, datetime.now(UTC))
    certificate = issue_client_certificate(tmp_path, is_self_signed=True)
    with ServerProcess(tmp_path, client_ca_file=certificate) as server:
        context = server.context
        context.load_cert_chain(certificate)
        assert httpx.get(f"https://localhost:{server.port}/healthz", verify=context).status_code == 200
        for other in (issue_client_certificate(tmp_path, is_self_signed=True), issue_client_certificate(tmp_path)):
            context = server.context
            context.load_cert_chain(other)
            with pytest.raises(httpx.TransportError):
                httpx.get(f"https://localhost:{server.port}/healthz", verify=context)


def test_tls_below_1_3_is_rejected_unless_allowed(tiny: ServerProcess, tmp_path: Path) -> None:
    def get_by_tls_1_2(server: ServerProcess) -> httpx.Response:
        context = server.context
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        return httpx.get(f"https://localhost:{server.port}/healthz", verify=context)

    with pytest.raises(httpx.ConnectError):
        get_by_tls_1_2(tiny)
    with ServerProcess(tmp_path, tls_min_version="1.2") as server:
        assert get_by_tls_1_2(server).status_code == 200
