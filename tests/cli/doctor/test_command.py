"""The command before servers of every kind: it ends, says what it could not see, and tells no secret."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import create_ca, create_serving_certificate
from certs.certificate_names import create_service_names
from tests.cli.doctor.server import Answers, Said, serving
from tests.cli.doctor.world import LABELS
from tests.cli.terminal import printed
from webhook.admission.webhook_configuration import ServiceTarget, create_webhook_configurations
from webhook.cli.app import root
from webhook.cli.doctor import doctor_client
from webhook.cli.doctor.command import CHECKS
from webhook.kube.client import ResponseLimits
from webhook.state.kubernetes.crd import create_crd

_VERSION = Said(200, b"{}")
_ABSENT = Said(404, b'{"kind":"Status","message":"not found"}')
_KEY = "cHJpdmF0ZSBrZXkgb2YgdGhlIGdhdGU="


def doctor(kubeconfig: Path, *arguments: str) -> Result:
    """Type it."""
    return CliRunner().invoke(root, ["doctor", f"--kubeconfig={kubeconfig}", *arguments], prog_name="tallygate")


def found(kubeconfig: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """What it finds, by check."""
    result = doctor(kubeconfig, "-o", "json", *arguments)
    assert result.exit_code in {0, 1}, result.output
    return {each["check"]: each for each in json.loads(result.stdout)["checks"]}


def listed(*items: Any) -> Said:
    """A list."""
    for number, each in enumerate(items):
        each["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": "7"}
    return Said(200, json.dumps({"metadata": {"resourceVersion": "9"}, "items": list(items)}).encode())


def one(item: Any) -> Said:
    """An object."""
    return Said(200, msgspec.json.encode(item))


@pytest.mark.parametrize(
    "hostile",
    [
        Said(200, b""),
        Said(200, b"null"),
        Said(200, b"[]"),
        Said(200, b'{"metadata": 3, "items": {"a": 1}}'),
        Said(200, b"\xff\xfe" * 1000),
        Said(200, b'{"items": [null, 3, {"metadata": null}], "metadata": {"resourceVersion": "1"}}'),
        Said(200, b"[" * 100_000),
        Said(201, b'{"status": {"allowed": "yes"}}'),
        Said(403, b'{"message": "no \x1b[31mway"}'),
        Said(429, b""),
        Said(500, b'{"message": ' + b'"x' * 100_000),
        Said(200, b"{}", "Sun, 99 Nov 2026 03:00:00 GMT"),
    ],
    ids=range(12),
)
def test_whatever_is_answered_it_ends_and_takes_nothing_for_good(tmp_path: Path, hostile: Said) -> None:
    with serving(tmp_path, lambda _, path: _VERSION if path == "/version" else hostile) as kubeconfig:
        results = found(kubeconfig)
        assert list(results) == [check.name for check in CHECKS]
        assert results["registered"]["result"] != "PASS"
        assert results["reachable"]["result"] == "UNKNOWN"
        table = doctor(kubeconfig)
    assert "\x1b" not in table.stdout
    assert "not-to-be-told" not in table.output + json.dumps(results)
    assert table.stderr.startswith(f"{len(CHECKS)} checks: ")


def test_an_answer_without_end_is_given_up(tmp_path: Path) -> None:
    large = Said(200, b" " * (17 * 1024 * 1024))
    with serving(tmp_path, lambda _, path: large if "webhookconf" in path else _VERSION) as kubeconfig:
        assert "more than 16777216 bytes" in found(kubeconfig)["registered"]["reason"]


def test_an_answer_that_trickles_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_client, "_LIMITS", ResponseLimits(1.0, 1.0, 0.3, 1 << 24))
    trickle = Said(200, b"", is_endless=True)
    with serving(tmp_path, lambda _, path: trickle if "webhookconf" in path else _VERSION) as kubeconfig:
        assert "does not answer: " in found(kubeconfig)["registered"]["reason"]


def test_a_server_that_knows_nobody_is_misuse(tmp_path: Path) -> None:
    with serving(tmp_path, lambda _, __: Said(401, b'{"message":"Unauthorized"}')) as kubeconfig:
        result = doctor(kubeconfig)
    assert result.exit_code == 2
    assert result.stderr.endswith(" does not answer: 401 Unauthorized\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--monitor", "127.0.0.1:9090"), "write a URL"),
        (("--in-cluster",), "--in-cluster takes neither"),
        (("--policies", "nowhere"), "nowhere"),
    ],
)
def test_what_is_typed_wrongly_is_misuse(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    result = doctor(tmp_path / "kubeconfig", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def _deployment(labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": "tallygate"},
        "spec": {"replicas": 2, "template": template},
        "status": {"readyReplicas": 2},
    }


def _lease(now: datetime) -> dict[str, Any]:
    return {
        "metadata": {"name": "tallygate-leader"},
        "spec": {"holderIdentity": "a", "renewTime": now.isoformat()},
    }


class Cluster:
    """A cluster with a gate that is well, one part of which may be otherwise."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        authority = create_ca(now)
        trusted = authority.certificate.public_bytes(Encoding.PEM)
        chain = create_serving_certificate(authority, create_service_names("tallygate", "tallygate-system"), now)
        self.ends = chain.certificate.not_valid_after_utc.timestamp()
        self.mutating, self.validating = create_webhook_configurations(ServiceTarget(), ca_bundle=trusted)
        spec = {
            "containers": [{"name": "tallygate", "args": ["serve", "--cluster=in-cluster", "--ledgers=kubernetes"]}]
        }
        tls = {"tls.crt": chain.certificate.public_bytes(Encoding.PEM), "tls.key": _KEY}
        own = "/api/v1/namespaces/tallygate-system"
        pods = [{"metadata": {"name": name, "namespace": "tallygate-system"}, "spec": spec} for name in ("a", "b")]
        hooks = "/apis/admissionregistration.k8s.io/v1"
        self.answers = {
            "/version": _VERSION,
            f"{hooks}/mutatingwebhookconfigurations/tallygate": one(self.mutating),
            f"{hooks}/validatingwebhookconfigurations/tallygate": one(self.validating),
            f"{hooks}/mutatingwebhookconfigurations": listed(self.mutating),
            "/api/v1/namespaces": listed(*({"metadata": {"name": name}} for name in ("default", "kube-system"))),
            f"{own}/secrets/tallygate-tls": one({"metadata": {"name": "tallygate-tls"}, "data": tls}),
            "/apis/apps/v1/namespaces/tallygate-system/deployments/tallygate": one(_deployment(LABELS, spec)),
            "/apis/policy/v1/namespaces/tallygate-system/poddisruptionbudgets": listed(
                {"metadata": {"name": "tallygate"}, "spec": {"selector": {"matchLabels": LABELS}}}
            ),
            f"{own}/pods": listed(*pods),
            f"{own}/serviceaccounts/tallygate": one({"metadata": {"name": "tallygate"}}),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev": one(
                create_crd() | {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
            ),
            "/apis/coordination.k8s.io/v1/namespaces/tallygate-system/leases/tallygate-leader": one(_lease(now)),
            "/api/v1/resourcequotas": listed(),
            "/api/v1/nodes": listed(),
            "/api/v1/pods": listed(*pods),
            "/apis/tallygate.dev/v1alpha1/capledgers": listed(),
            "/apis/authorization.k8s.io/v1/subjectaccessreviews": Said(201, b'{"status":{"allowed":true}}'),
        }
        self.behind = timedelta()
        self.asked: list[str] = []

    def __call__(self, method: str, path: str) -> Said:
        """Answer."""
        self.asked.append(path)
        return self._answer(method, path.partition("?")[0])._replace(
            date=format_datetime(datetime.now(UTC) - (self.behind if "/proxy/" in path else timedelta()), usegmt=True)
        )

    def _answer(self, method: str, path: str) -> Said:
        if method == "POST" and path == "/api/v1/namespaces/default/pods":
            return Said(201, b"{}")
        if path.endswith("9090/proxy/readyz"):
            watched = {"ready": True, "pods": {"revision": 7}, "namespaces": {"revision": 7}}
            names = ("policies", "serving", "certificate", "ledgers", "leader-election")
            checks = {name: {"ready": True} for name in names} | {"watches": watched}
            return one({"status": "ready", "checks": checks})
        if path.endswith("9090/proxy/metrics"):
            lines = (
                f"tallygate_certificate_not_after_timestamp_seconds {self.ends}",
                'tallygate_watch_age_seconds{resource="pods"} 1.5',
                "tallygate_policy_rules 3",
                'tallygate_ledger_drift_total{cap="gpus"} 0',
            )
            return Said(200, "".join(f"{line}\n" for line in lines).encode())
        return self.answers.get(path, _ABSENT)


@pytest.fixture
def cluster() -> Cluster:
    """One that is well."""
    return Cluster()


@pytest.fixture
def kubeconfig(tmp_path: Path, cluster: Cluster) -> Iterator[Path]:
    """How to reach it."""
    answers: Answers = cluster
    with serving(tmp_path, answers) as path:
        yield path


def test_replicas_are_asked_through_the_api_server(kubeconfig: Path) -> None:
    results = found(kubeconfig)
    assert {name: each["result"] for name, each in results.items() if each["result"] != "PASS"} == {}
    assert results["replicas"]["reason"] == "2 replicas ready: a, b"
    assert results["watches"]["reason"] == "what is seen by 2 replicas is current"


def test_of_a_pod_with_a_relay_the_gate_is_asked_and_spoken_of(cluster: Cluster, kubeconfig: Path) -> None:
    relay = {"name": "relay", "args": ["relay"], "ports": [{"name": "relay", "containerPort": 9091}]}
    gate = {
        "name": "tallygate",
        "args": ["serve", "--cluster=in-cluster", "--ledgers=kubernetes"],
        "ports": [{"name": "monitor", "containerPort": 9090}],
    }
    spec = {"containers": [relay, gate]}
    pods = [{"metadata": {"name": name, "namespace": "tallygate-system"}, "spec": spec} for name in ("a", "b")]
    cluster.answers["/api/v1/namespaces/tallygate-system/pods"] = listed(*pods)
    cluster.answers["/apis/apps/v1/namespaces/tallygate-system/deployments/tallygate"] = one(_deployment(LABELS, spec))
    results = found(kubeconfig)
    assert {name: each["result"] for name, each in results.items() if each["result"] != "PASS"} == {}
    assert results["replicas"]["reason"] == "2 replicas ready: a, b"


def test_a_clock_of_a_replica_that_is_behind_is_told_by_its_date(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.behind = timedelta(seconds=90)
    assert found(kubeconfig)["clocks"]["result"] == "WARN"


def test_the_lease_is_read_before_what_may_take_long(cluster: Cluster, kubeconfig: Path) -> None:
    """It is renewed meanwhile, and a clock that was looked at before would seem to be behind."""
    assert found(kubeconfig)["leader"]["result"] == "PASS"
    lease = next(number for number, path in enumerate(cluster.asked) if path.endswith("/leases/tallygate-leader"))
    slow = (number for number, path in enumerate(cluster.asked) if "/proxy/" in path or "dryRun" in path)
    assert lease < min(slow)


def test_nothing_of_the_secret_but_dates_is_told(kubeconfig: Path) -> None:
    for form in ("table", "json", "yaml"):
        result = doctor(kubeconfig, "-o", form)
        assert result.exit_code == 0
        assert _KEY not in result.output
        assert "not-to-be-told" not in result.output


def test_strict_lets_what_is_not_pass_fail(cluster: Cluster, kubeconfig: Path) -> None:
    assert doctor(kubeconfig, "--strict").exit_code == 0
    del cluster.answers["/apis/policy/v1/namespaces/tallygate-system/poddisruptionbudgets"]
    assert (doctor(kubeconfig).exit_code, doctor(kubeconfig, "--strict").exit_code) == (0, 1)


def test_what_fails_is_exit_code_1_and_its_command_is_a_line_to_copy(cluster: Cluster, kubeconfig: Path) -> None:
    del cluster.answers["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev"]
    result = doctor(kubeconfig)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("FAIL ")]
    assert lines[at + 1] == (
        f"         $ kubectl --kubeconfig={kubeconfig} apply --server-side --force-conflicts "
        "--filename=deploy/kustomize/components/cluster-access/crd.yaml"
    )
    assert len(lines) == len(CHECKS) + 1


def test_on_a_terminal_it_is_coloured_and_commands_are_not_folded(cluster: Cluster, kubeconfig: Path) -> None:
    del cluster.answers["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev"]
    arguments = ["doctor", f"--kubeconfig={kubeconfig}"]
    shown = printed(arguments, 60, kubeconfig.parent)
    (failing,) = [line for line in shown.splitlines() if "\x1b[1;31mFAIL" in line]
    assert "crd" in failing
    assert any(
        line.endswith("components/cluster-access/crd.yaml") for line in shown.splitlines() if "$ kubectl" in line
    )
    assert "\x1b[1;31m" not in printed(arguments, 60, kubeconfig.parent, NO_COLOR="1")
