"""The command against servers of every kind: it ends, names unreadable objects, and prints no secret."""

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

from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.cli.app import root
from tallygate.cli.doctor import doctor_client
from tallygate.cli.doctor.command import CHECKS
from tallygate.kube.client import ResponseLimits
from tallygate.policy.policy_config_maps import LABEL_VALUE, POLICIES_LABEL
from tallygate.state.kubernetes.crd import create_crd
from tallygate_certs.authority import create_ca, create_serving_certificate
from tallygate_certs.certificate_names import create_service_names
from tests.admission.plain_configurations import create_plain_configurations
from tests.cli.doctor.healthy_gate import LABELS
from tests.cli.doctor.scripted_server import Response, run_server
from tests.cli.terminal import run_in_terminal

_VERSION = Response(200, b"{}")
_ABSENT = Response(404, b'{"kind":"Status","message":"not found"}')
_GATE = {
    "name": "tallygate",
    "args": ["serve", "--cluster=in-cluster", "--ledgers=kubernetes", "--policies=/policies"],
    "volumeMounts": [{"name": "policies", "mountPath": "/policies"}],
}
_VOLUMES = [{"name": "policies", "configMap": {"name": "tallygate-policies"}}]
_POLICIES = Path("policies/default.yaml").read_text(encoding="utf-8")
_ANNOTATED = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {include: [team-a]}
  hard: {nvidia.com/gpu: 4}
  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}
"""
_GANGS = Path("policies/examples/gang-jobs.yaml").read_text(encoding="utf-8")
_KEY = "cHJpdmF0ZSBrZXkgb2YgdGhlIGdhdGU="


def doctor(kubeconfig: Path, *arguments: str) -> Result:
    """Run `tallygate doctor`."""
    return CliRunner().invoke(root, ["doctor", f"--kubeconfig={kubeconfig}", *arguments], prog_name="tallygate")


def read_results(kubeconfig: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the results by check."""
    result = doctor(kubeconfig, "-o", "json", *arguments)
    assert result.exit_code in {0, 1}, result.output
    return {each["check"]: each for each in json.loads(result.stdout)["checks"]}


def list_response(*items: Any) -> Response:
    """Return a response with a list of objects."""
    for number, each in enumerate(items):
        each["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": "7"}
    return Response(200, json.dumps({"metadata": {"resourceVersion": "9"}, "items": list(items)}).encode())


def object_response(item: Any) -> Response:
    """Return a response with one object."""
    return Response(200, msgspec.json.encode(item))


@pytest.mark.parametrize(
    "hostile",
    [
        Response(200, b""),
        Response(200, b"null"),
        Response(200, b"[]"),
        Response(200, b'{"metadata": 3, "items": {"a": 1}}'),
        Response(200, b"\xff\xfe" * 1000),
        Response(200, b'{"items": [null, 3, {"metadata": null}], "metadata": {"resourceVersion": "1"}}'),
        Response(200, b"[" * 100_000),
        Response(201, b'{"status": {"allowed": "yes"}}'),
        Response(403, b'{"message": "no \x1b[31mway"}'),
        Response(429, b""),
        Response(500, b'{"message": ' + b'"x' * 100_000),
        Response(200, b"{}", "Sun, 99 Nov 2026 03:00:00 GMT"),
    ],
    ids=range(12),
)
def test_no_invalid_response_passes_a_check(tmp_path: Path, hostile: Response) -> None:
    with run_server(tmp_path, lambda _, path: _VERSION if path == "/version" else hostile) as kubeconfig:
        results = read_results(kubeconfig)
        assert list(results) == [check.name for check in CHECKS]
        assert results["registered"]["result"] != "PASS"
        assert results["reachable"]["result"] == "UNKNOWN"
        create_table = doctor(kubeconfig)
    assert "\x1b" not in create_table.stdout
    assert "secret-token" not in create_table.output + json.dumps(results)
    assert create_table.stderr.startswith(f"{len(CHECKS)} checks: ")


def test_a_response_that_is_too_long_is_aborted(tmp_path: Path) -> None:
    large = Response(200, b" " * (17 * 1024 * 1024))
    with run_server(tmp_path, lambda _, path: large if "webhookconf" in path else _VERSION) as kubeconfig:
        assert "more than 16777216 bytes" in read_results(kubeconfig)["registered"]["reason"]


def test_a_slow_endless_response_is_aborted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_client, "_LIMITS", ResponseLimits(1.0, 1.0, 0.3, 1 << 24))
    trickle = Response(200, b"", is_endless=True)
    with run_server(tmp_path, lambda _, path: trickle if "webhookconf" in path else _VERSION) as kubeconfig:
        assert "does not answer: " in read_results(kubeconfig)["registered"]["reason"]


def test_an_unauthenticated_request_is_a_usage_error(tmp_path: Path) -> None:
    with run_server(tmp_path, lambda _, __: Response(401, b'{"message":"Unauthorized"}')) as kubeconfig:
        result = doctor(kubeconfig)
    assert result.exit_code == 2
    assert result.stderr.endswith(" does not answer: 401 Unauthorized\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--monitor", "127.0.0.1:9090"), "write a URL"),
        (("--in-cluster",), "--in-cluster takes neither"),
        (("--policies", "nowhere"), "nowhere"),
    ],
)
def test_invalid_arguments_are_usage_errors(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = doctor(tmp_path / "kubeconfig", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def _deployment(labels: dict[str, str], spec: dict[str, Any], account: str = "tallygate") -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": {**spec, "serviceAccountName": account}}
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


class GateCluster:
    """A cluster with a healthy gate, parts of which a test may change."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        ca = create_ca(now)
        trusted = ca.certificate.public_bytes(Encoding.PEM)
        chain = create_serving_certificate(ca, create_service_names("tallygate", "tallygate-system"), now)
        self.chain, self.authority = chain, trusted
        self.ends = chain.certificate.not_valid_after_utc.timestamp()
        self.mutating, self.validating = create_plain_configurations(ServiceTarget(), ca_bundle=trusted)
        spec = {"containers": [_GATE], "volumes": _VOLUMES}
        tls = {"tls.crt": chain.certificate.public_bytes(Encoding.PEM), "tls.key": _KEY}
        own = "/api/v1/namespaces/tallygate-system"
        pods = [{"metadata": {"name": name, "namespace": "tallygate-system"}, "spec": spec} for name in ("a", "b")]
        hooks = "/apis/admissionregistration.k8s.io/v1"
        self.responses = {
            "/version": _VERSION,
            f"{hooks}/mutatingwebhookconfigurations/tallygate": object_response(self.mutating),
            f"{hooks}/validatingwebhookconfigurations/tallygate": object_response(self.validating),
            f"{hooks}/mutatingwebhookconfigurations": list_response(self.mutating),
            "/api/v1/namespaces": list_response(*({"metadata": {"name": name}} for name in ("default", "kube-system"))),
            f"{own}/secrets/tallygate-tls": object_response({"metadata": {"name": "tallygate-tls"}, "data": tls}),
            "/apis/apps/v1/namespaces/tallygate-system/deployments/tallygate": object_response(
                _deployment(LABELS, spec)
            ),
            "/apis/networking.k8s.io/v1/namespaces/tallygate-system/networkpolicies": list_response(
                {
                    "metadata": {"name": "tallygate"},
                    "spec": {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Ingress"]},
                }
            ),
            "/apis/policy/v1/namespaces/tallygate-system/poddisruptionbudgets": list_response(
                {"metadata": {"name": "tallygate"}, "spec": {"selector": {"matchLabels": LABELS}}}
            ),
            f"{own}/configmaps/tallygate-policies": object_response(
                {
                    "metadata": {"name": "tallygate-policies", "labels": {POLICIES_LABEL: LABEL_VALUE}},
                    "data": {"default.yaml": _POLICIES},
                }
            ),
            f"{own}/pods": list_response(*pods),
            f"{own}/serviceaccounts/tallygate": object_response({"metadata": {"name": "tallygate"}}),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev": object_response(
                create_crd() | {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
            ),
            "/apis/coordination.k8s.io/v1/namespaces/tallygate-system/leases/tallygate-leader": object_response(
                _lease(now)
            ),
            "/api/v1/resourcequotas": list_response(),
            "/api/v1/nodes": list_response(),
            "/api/v1/pods": list_response(*pods),
            "/apis/tallygate.dev/v1alpha1/capledgers": list_response(),
            "/apis": Response(200, b'{"kind":"APIGroupDiscoveryList","items":[]}'),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": list_response(),
            "/apis/authorization.k8s.io/v1/subjectaccessreviews": Response(201, b'{"status":{"allowed":true}}'),
        }
        self.clock_delay = timedelta()
        self.requested_paths: list[str] = []

    def __call__(self, method: str, path: str) -> Response:
        """Return the response to a request."""
        self.requested_paths.append(path)
        return self._answer(method, path.partition("?")[0])._replace(
            date=format_datetime(
                datetime.now(UTC) - (self.clock_delay if "/proxy/" in path else timedelta()), usegmt=True
            )
        )

    def _answer(self, method: str, path: str) -> Response:
        if method == "POST" and path == "/api/v1/namespaces/default/pods":
            return Response(201, b"{}")
        if path.endswith("/readyz"):
            watched = {"ready": True, "pods": {"revision": 7}, "namespaces": {"revision": 7}}
            names = ("policies", "serving", "certificate", "ledgers", "leader-election")
            checks = {name: {"ready": True} for name in names} | {"watches": watched}
            return object_response({"status": "ready", "checks": checks})
        if path.endswith("/metrics"):
            lines = (
                f"tallygate_certificate_not_after_timestamp_seconds {self.ends}",
                'tallygate_watch_age_seconds{resource="pods"} 1.5',
                "tallygate_policy_rules 3",
                'tallygate_ledger_drift_total{cap="gpus"} 0',
            )
            return Response(200, "".join(f"{line}\n" for line in lines).encode())
        return self.responses.get(path, _ABSENT)


@pytest.fixture
def cluster() -> GateCluster:
    """Return a healthy cluster."""
    return GateCluster()


@pytest.fixture
def kubeconfig(tmp_path: Path, cluster: GateCluster) -> Iterator[Path]:
    """Yield the path of a kubeconfig for the cluster."""
    with run_server(tmp_path, cluster) as path:
        yield path


def test_replicas_are_read_through_the_api_server(kubeconfig: Path) -> None:
    results = read_results(kubeconfig)
    assert {name: each["result"] for name, each in results.items() if each["result"] != "PASS"} == {}
    assert results["replicas"]["reason"] == "2 replicas ready: a, b"
    assert results["watches"]["reason"] == "what is seen by 2 replicas is current"


def test_the_gate_of_a_pod_with_a_relay_is_read_and_reported(cluster: GateCluster, kubeconfig: Path) -> None:
    relay = {"name": "relay", "args": ["relay"], "ports": [{"name": "relay", "containerPort": 9091}]}
    spec = {
        "containers": [relay, _GATE | {"ports": [{"name": "monitor", "containerPort": 9090}]}],
        "volumes": _VOLUMES,
    }
    pods = [{"metadata": {"name": name, "namespace": "tallygate-system"}, "spec": spec} for name in ("a", "b")]
    cluster.responses["/api/v1/namespaces/tallygate-system/pods"] = list_response(*pods)
    cluster.responses["/apis/apps/v1/namespaces/tallygate-system/deployments/tallygate"] = object_response(
        _deployment(LABELS, spec)
    )
    results = read_results(kubeconfig)
    assert {name: each["result"] for name, each in results.items() if each["result"] != "PASS"} == {}
    assert results["replicas"]["reason"] == "2 replicas ready: a, b"


def test_the_permissions_of_the_pods_own_service_account_are_checked(cluster: GateCluster, kubeconfig: Path) -> None:
    path = "/apis/apps/v1/namespaces/tallygate-system/deployments/tallygate"
    spec = {"containers": [{"name": "tallygate", "args": ["serve", "--cluster=in-cluster", "--ledgers=kubernetes"]}]}
    cluster.responses[path] = object_response(_deployment(LABELS, spec, "mine"))
    assert "no ServiceAccount tallygate-system/mine" in read_results(kubeconfig)["permissions"]["reason"]
    own = "/api/v1/namespaces/tallygate-system/serviceaccounts"
    cluster.responses[f"{own}/mine"] = object_response({"metadata": {"name": "mine"}})
    assert read_results(kubeconfig)["permissions"]["result"] == "PASS"


def test_the_kinds_of_the_mounted_policies_are_known(cluster: GateCluster, kubeconfig: Path, tmp_path: Path) -> None:
    """Find a kind that they define, served and not registered; without the right to read them, its state is unknown."""
    resource = {"resource": "gangjobs", "scope": "Namespaced"}
    group = {"metadata": {"name": "batch.example.com"}, "versions": [{"version": "v1", "resources": [resource]}]}
    cluster.responses["/apis"] = object_response({"kind": "APIGroupDiscoveryList", "items": [group]})
    assert read_results(kubeconfig)["workload-kinds"]["result"] == "PASS"

    path = "/api/v1/namespaces/tallygate-system/configmaps/tallygate-policies"
    cluster.responses[path] = object_response({"data": {"default.yaml": _POLICIES, "gangs.yaml": _GANGS}})
    found = read_results(kubeconfig)["workload-kinds"]
    assert (found["result"], found["reason"].partition(":")[0]) == (
        "WARN",
        "GangJob of batch.example.com is served and not registered in the mutate phase",
    )

    cluster.responses[path] = Response(403, b'{"kind":"Status","message":"no"}')
    unknown = read_results(kubeconfig)["workload-kinds"]
    assert unknown["result"] == "UNKNOWN"
    assert "define are unknown: the ConfigMap tallygate-system/tallygate-policies cannot be read" in unknown["reason"]
    (tmp_path / "gangs.yaml").write_text(_GANGS)
    given = read_results(kubeconfig, "--policies", str(tmp_path / "gangs.yaml"))["workload-kinds"]
    assert given == found


def test_annotations_that_set_no_limit_are_found_with_the_text_that_would(
    cluster: GateCluster, kubeconfig: Path
) -> None:
    texts = {"limits.tallygate.dev/gpus": "nvidia.com/gpu=9", "limits.tallygate.dev/gpu": "nvidia.com/gpu=8"}
    cluster.responses["/api/v1/namespaces"] = list_response({"metadata": {"name": "team-a", "annotations": texts}})
    path = "/api/v1/namespaces/tallygate-system/configmaps/tallygate-policies"
    cluster.responses[path] = object_response({"data": {"default.yaml": _POLICIES, "gpus.yaml": _ANNOTATED}})
    found = read_results(kubeconfig)["limit-annotations"]
    assert found["result"] == "WARN"
    assert found["reason"] == (
        "the annotation limits.tallygate.dev/gpus of namespace team-a sets no limit: nvidia.com/gpu: 9 is more than an "
        "annotation may give; write 8 or less; the annotation limits.tallygate.dev/gpu of namespace team-a sets no "
        'limit: no cap of the name gpu reads it; did you mean "gpus"?; remove it'
    )
    assert [command.rpartition(" ")[2] for command in found["fix"]] == [f"{key}-" for key in texts]


def test_a_late_clock_of_a_replica_is_detected_by_its_date_header(cluster: GateCluster, kubeconfig: Path) -> None:
    cluster.clock_delay = timedelta(seconds=90)
    assert read_results(kubeconfig)["clocks"]["result"] == "WARN"


def test_the_lease_is_read_before_slow_requests(cluster: GateCluster, kubeconfig: Path) -> None:
    """Read the lease early: it is renewed meanwhile, and a clock that was read before would seem to be late."""
    assert read_results(kubeconfig)["leader"]["result"] == "PASS"
    lease = next(
        number for number, path in enumerate(cluster.requested_paths) if path.endswith("/leases/tallygate-leader")
    )
    slow = (number for number, path in enumerate(cluster.requested_paths) if "/proxy/" in path or "dryRun" in path)
    assert lease < min(slow)


def test_only_the_dates_of_the_secret_are_printed(kubeconfig: Path) -> None:
    for form in ("table", "json", "yaml"):
        result = doctor(kubeconfig, "-o", form)
        assert result.exit_code == 0
        assert _KEY not in result.output
        assert "secret-token" not in result.output


def test_the_strict_option_turns_warnings_into_failures(cluster: GateCluster, kubeconfig: Path) -> None:
    assert doctor(kubeconfig, "--strict").exit_code == 0
    del cluster.responses["/apis/policy/v1/namespaces/tallygate-system/poddisruptionbudgets"]
    assert (doctor(kubeconfig).exit_code, doctor(kubeconfig, "--strict").exit_code) == (0, 1)


def test_a_failure_has_exit_code_1_and_a_fix_command_of_one_line(cluster: GateCluster, kubeconfig: Path) -> None:
    del cluster.responses["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev"]
    result = doctor(kubeconfig)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("FAIL ")]
    command_at = next(number for number in range(at, len(lines)) if lines[number].lstrip().startswith("$ "))
    assert lines[command_at] == (
        f"         $ kubectl --kubeconfig={kubeconfig} apply --server-side --force-conflicts "
        "--filename=deploy/kustomize/components/cluster-access/crd.yaml"
    )
    others = [line for number, line in enumerate(lines) if number != command_at]
    assert max(map(len, others)) <= 80
    assert sum(not line.startswith(" ") for line in others) == len(CHECKS)


@pytest.mark.parametrize("answer", [403, 503])
def test_an_unknown_registration_has_exit_code_1_at_once(cluster: GateCluster, kubeconfig: Path, answer: int) -> None:
    """Refuse everything but the version: no request is sent again and again, so that the command soon ends."""
    for path in list(cluster.responses):
        if path != "/version":
            cluster.responses[path] = Response(answer, b'{"kind":"Status","message":"no"}')
    result = doctor(kubeconfig, "-o", "json")
    assert result.exit_code == 1
    statuses = {each["check"]: each["result"] for each in json.loads(result.stdout)["checks"]}
    assert (statuses["registered"], statuses["reachable"]) == ("UNKNOWN", "UNKNOWN")
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert sum(path.startswith(f"{definitions}?") for path in cluster.requested_paths) == 1


def test_a_terminal_gets_colours_and_unfolded_commands(cluster: GateCluster, kubeconfig: Path) -> None:
    del cluster.responses["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev"]
    arguments = ["doctor", f"--kubeconfig={kubeconfig}"]
    shown = run_in_terminal(arguments, 60, kubeconfig.parent)
    (failing,) = [line for line in shown.splitlines() if "\x1b[1;31mFAIL" in line]
    assert "crd" in failing
    assert any(
        line.endswith("components/cluster-access/crd.yaml") for line in shown.splitlines() if "$ kubectl" in line
    )
    assert "\x1b[1;31m" not in run_in_terminal(arguments, 60, kubeconfig.parent, NO_COLOR="1")


def test_quotas_and_opaque_names_are_read_of_the_cluster(tmp_path: Path) -> None:
    """Leave out a pod that has ended, and one that requests nothing opaque."""
    opaque = "pod.alpha.kubernetes.io/opaque-int-resource-x"

    def pod(name: str, requested: str, phase: str = "Running") -> dict[str, Any]:
        containers = [{"name": "c", "resources": {"requests": {requested: "1"}}}]
        metadata = {"name": name, "namespace": "team-a"}
        return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": phase}}

    quota = {"metadata": {"name": "few", "namespace": "team-a"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}}
    responses = {
        "/version": _VERSION,
        "/api/v1/namespaces": list_response({"metadata": {"name": "team-a"}}),
        "/api/v1/resourcequotas": list_response(quota),
        "/api/v1/nodes": list_response({"metadata": {"name": "n1"}, "status": {"capacity": {opaque: "3"}}}),
        "/api/v1/pods": list_response(pod("p", opaque), pod("ended", opaque, "Succeeded"), pod("plain", "cpu")),
    }
    policies = tmp_path / "cap.yaml"
    policies.write_text(_ANNOTATED, encoding="utf-8")
    with run_server(tmp_path, lambda _, path: responses.get(path.partition("?")[0], _ABSENT)) as kubeconfig:
        results = read_results(kubeconfig, f"--policies={policies}")
    names = results["opaque-names"]["reason"]
    assert "1 node advertises names that begin with pod.alpha.kubernetes.io/opaque-int-resource-, " in names
    assert "; nodes: n1; " in names
    assert "1 pod requests names that begin with " in names
    assert "; pods: team-a/p; " in names
    assert "quota few of team-a allows 2 of nvidia.com/gpu, cap gpus 4" in results["quotas"]["reason"]


def test_the_share_of_the_present_pods_is_read_from_the_cluster(cluster: GateCluster, kubeconfig: Path) -> None:
    """Count pods that have not ended, those alike together; kube-system is excluded."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    phases = (("default", "Running"), ("default", "Pending"), ("default", "Failed"), ("kube-system", "Running"))
    cluster.responses["/api/v1/pods"] = list_response(
        *(
            {
                "metadata": {"name": f"pod-{number}", "namespace": namespace, "labels": {"number": f"{number}"}},
                "spec": {"containers": [container]},
                "status": {"phase": phase},
            }
            for number, (namespace, phase) in enumerate(phases)
        )
    )
    assert read_results(kubeconfig)["asked"]["reason"] == (
        "about every pod and workload: no condition of a policy is registered. Of 3 present pods that is 2, 67%"
    )
