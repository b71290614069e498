"""`tallygate doctor` on a real API server: a healthy gate, and one fault after the other."""

import json
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding

from e2e.api import JSON, Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.gates.process import GateProcess
from e2e.gates.running import HERE
from e2e.ledgers import define_ledgers, delete_leases, delete_ledgers
from e2e.namespaces import label
from e2e.node_resources import advertise, read_advertised
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.registering import CONFIGURATIONS, keep_registered, register, unregister
from e2e.service_account import as_service_account, gates_account
from e2e.waiting import until
from tallygate_certs.authority import SERVING_LIFETIME, create_ca, create_serving_certificate
from tallygate_certs.cert_files import read_ca, write_serving_pair
from tallygate_certs.certificate_names import parse_names

_ROOT = Path(__file__).parents[1]
_OWN = "tallygate-system"
_MUTATING, _VALIDATING = CONFIGURATIONS.values()
_ROLE = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{_OWN}/roles/tallygate"
_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev"
_WITHIN = 90.0
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {selector: {matchLabels: {doctor: looks}}}
  hard: {example.com/dongle: 4}
"""
_OTHERS = frozenset({"backstop", "opaque-names", "quotas", "excluded-namespaces", "callers"})
"""Checks that leftovers of other cases may fail, and that of a Deployment, which a gate on this machine has none of."""

Found = dict[str, dict[str, Any]]


class Doctor:
    """A gate with the rights of its ServiceAccount, registered, and the command that checks it."""

    def __init__(self, cluster: Cluster, gate: GateProcess, folder: Path) -> None:
        self.cluster = cluster
        self.gate = gate
        self.kubeconfig = cluster.kubeconfig
        self.found: Found = {}
        self._folder = folder
        (folder / "certs.d").symlink_to(gate.certificates)
        (folder / "deploy").symlink_to(_ROOT / "deploy")
        self._policies = folder / "caps.yaml"  # of its own, since a case breaks those of the gate
        self._policies.write_text(_CAP)

    def run_tallygate(self, *arguments: str) -> CompletedProcess[str]:
        """Run a command of tallygate in the folder in which the printed commands run."""
        environment = {"KUBECONFIG": str(self.kubeconfig)}
        return run_tallygate(self.cluster, *arguments, cwd=self._folder, environment=environment)

    def look(self, *arguments: str) -> Found:
        """Return the results by check; `found` has the last ones."""
        shown = self.run_tallygate(
            "doctor", f"--monitor={self.gate.monitor}", f"--policies={self._policies}", "-o", "json", *arguments
        )
        assert shown.returncode in {0, 1}, shown.stderr
        found = {each["check"]: each for each in json.loads(shown.stdout)["checks"]}
        fails = any(
            each["result"] == "FAIL" or (each["result"] == "UNKNOWN" and name in {"registered", "reachable"})
            for name, each in found.items()
        )
        assert shown.returncode == int(fails), shown.stdout
        self.found = found
        return found

    def wrong(self) -> dict[str, str]:
        """Return the checks that are not PASS, with their results."""
        return {name: each["result"] for name, each in self.look().items() if each["result"] != "PASS"}

    def until_wrong(self, **expected: str) -> None:
        """Wait until exactly these are not PASS."""
        wanted = {name.replace("_", "-"): level for name, level in expected.items()}

        def is_so() -> bool:
            found = self.wrong()
            return all(
                found.get(name, "PASS") == wanted.get(name, "PASS")
                for name in {*found, *wanted} - self.get_ignored(wanted)
            )

        until(f"exactly {wanted} is found", is_so, _WITHIN, lambda: str(self.wrong()))

    @staticmethod
    def get_ignored(wanted: dict[str, str]) -> frozenset[str]:
        """Return the checks that leftovers of other cases may fail, unless this case is about them."""
        return _OTHERS - wanted.keys()

    def fix(self, check: str) -> None:
        """Run the commands that doctor prints to fix a check."""
        commands = self.found[check]["fix"]
        assert commands, check
        for command in commands:
            program, *arguments = shlex.split(command)
            done = self.cluster.kubectl(*arguments) if program == "kubectl" else self.run_tallygate(*arguments)
            assert done.returncode == 0, f"{command}: {done.stderr}"

    def patch(self, path: str, *operations: Object) -> None:
        """Change an object by hand."""
        api(self.cluster.kubeconfig).patch(path, operations, JSON)

    def webhook(self, path: str, name: str) -> tuple[int, Object]:
        """Return a webhook as it is stored, and its index in its configuration."""
        stored = api(self.cluster.kubeconfig).get(path)
        return next((index, each) for index, each in enumerate(stored["webhooks"]) if each["name"] == name)

    def set(self, path: str, name: str, field: str, value: Any) -> None:
        """Change a field of one webhook."""
        index, _ = self.webhook(path, name)
        self.patch(path, {"op": "add", "path": f"/webhooks/{index}/{field}", "value": value})


@pytest.fixture(scope="module")
def doctor(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doctor]:
    """Run a gate that watches the cluster as its ServiceAccount with its ledgers there, registered."""
    cluster, folder = site.cluster, tmp_path_factory.mktemp("doctor")
    if not isinstance(site.gate, GateProcess):
        pytest.skip("it is about a gate of its own, beside the one of the site")
    define_ledgers(cluster)
    kubeconfig = gates_account(cluster, folder, "cluster-access")
    delete_leases(cluster, _OWN)
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={kubeconfig}", "--ledgers=kubernetes", "--in-flight-bound=2s")
    gate = GateProcess(folder / "gate", arguments=arguments)
    gate.start()
    try:
        with keep_registered(cluster, gate):
            gate.write_policies(SHIPPED_FILES | {"dongles.yaml": _CAP})
            doctor = Doctor(cluster, gate, folder)
            doctor.until_wrong()
            yield doctor
    finally:
        gate.stop()
        delete_ledgers(cluster, _OWN)


@contextmanager
def _quota(cluster: Cluster, namespace: str, hard: dict[str, str]) -> Iterator[None]:
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api(cluster.kubeconfig).create(quotas, {"metadata": {"name": "other"}, "spec": {"hard": hard}})
    yield
    api(cluster.kubeconfig).delete(f"{quotas}/other")


def test_every_check_of_a_healthy_gate_passes(doctor: Doctor) -> None:
    shown = doctor.run_tallygate("doctor", f"--monitor={doctor.gate.monitor}", f"--policies={doctor.gate.policies}")
    assert shown.returncode == 0
    lines = [line for line in shown.stdout.splitlines() if not line.startswith(" ")]
    assert {line.split()[1] for line in lines if not line.startswith("PASS ")} <= _OTHERS
    assert shown.stderr.startswith(f"{len(lines)} checks: ")


Break = Callable[[Doctor], None]
_BREAKS: dict[str, tuple[Break, dict[str, str]]] = {
    "a kind of request is not sent": (
        lambda doctor: doctor.set(_VALIDATING, "updates.validate.tallygate.dev", "rules/0/resources", ["pods"]),
        {"rules": "FAIL"},
    ),
    "kube-system waits for the gate": (
        lambda doctor: doctor.set(_VALIDATING, "validate.tallygate.dev", "namespaceSelector", {}),
        {"exempt": "FAIL"},
    ),
    "a namespace is passed over": (
        lambda doctor: doctor.set(
            _VALIDATING,
            "validate.tallygate.dev",
            "namespaceSelector/matchExpressions/0/values",
            ["kube-system", _OWN, "kube-public"],
        ),
        {"excluded-namespaces": "WARN"},
    ),
    "what changes in kube-system waits for the gate": (
        lambda doctor: doctor.set(_VALIDATING, "updates.validate.tallygate.dev", "namespaceSelector", {}),
        {"exempt": "FAIL"},
    ),
    "labels of an object decide": (
        lambda doctor: doctor.set(
            _MUTATING, "mutate.tallygate.dev", "objectSelector", {"matchLabels": {"judge": "me"}}
        ),
        {"conditions": "FAIL"},
    ),
    "pods pass while the gate is away": (
        lambda doctor: doctor.set(_MUTATING, "mutate.tallygate.dev", "failurePolicy", "Ignore"),
        {"failure-policy": "WARN"},
    ),
    "nodes wait for the gate": (
        lambda doctor: doctor.set(_VALIDATING, "nodes.validate.tallygate.dev", "failurePolicy", "Fail"),
        {"lockout": "FAIL"},
    ),
    "a create may hang for long": (
        lambda doctor: doctor.set(_VALIDATING, "validate.tallygate.dev", "timeoutSeconds", 30),
        {"timeouts": "WARN"},
    ),
    "another authority is trusted": (
        lambda doctor: doctor.set(_VALIDATING, "validate.tallygate.dev", "clientConfig/caBundle", _stranger()),
        {"trusted": "FAIL", "reachable": "FAIL"},
    ),
}


def _stranger() -> str:
    """Return the caBundle of another authority."""
    certificate = create_ca(datetime.now(UTC)).certificate
    return b64encode(certificate.public_bytes(Encoding.PEM)).decode()


@pytest.mark.parametrize("broken", _BREAKS)
def test_a_wrong_registration_is_found_and_fixed_by_the_printed_commands(doctor: Doctor, broken: str) -> None:
    breaks, expected = _BREAKS[broken]
    breaks(doctor)
    doctor.until_wrong(**{name.replace("-", "_"): level for name, level in expected.items()})
    doctor.fix(next(iter(expected)))
    doctor.until_wrong()


def test_a_webhook_that_mutates_pods_after_the_gate_is_found(doctor: Doctor) -> None:
    _, webhook = doctor.webhook(_MUTATING, "mutate.tallygate.dev")
    later = {
        "metadata": {"name": "zz-later"},
        "webhooks": [
            {key: webhook[key] for key in ("rules", "sideEffects", "admissionReviewVersions")}
            | {
                "name": "later.example.com",
                "clientConfig": {"url": "https://127.0.0.1:9/"},
                "failurePolicy": "Ignore",
                "objectSelector": {"matchLabels": {"no-object": "has-this"}},
            }
        ],
    }
    ours, configurations = api(doctor.cluster.kubeconfig), _MUTATING.rpartition("/")[0]
    ours.create(configurations, later)
    try:
        assert (
            "zz-later may change pods after the gate, which is then asked again"
            in doctor.look()["reinvocation"]["reason"]
        )
        doctor.set(_MUTATING, "mutate.tallygate.dev", "reinvocationPolicy", "Never")
        doctor.until_wrong(reinvocation="WARN")
        doctor.fix("reinvocation")
        doctor.until_wrong()
    finally:
        ours.delete(f"{configurations}/zz-later")


def test_a_deleted_registration_is_reported(doctor: Doctor) -> None:
    unregister(doctor.cluster)
    found = doctor.look()
    assert (found["registered"]["result"], found["reachable"]["result"]) == ("FAIL", "UNKNOWN")
    assert found["registered"]["fix"] == ["kubectl apply -k deploy/kustomize/mine"]
    register(doctor.cluster, doctor.gate)
    doctor.until_wrong()


def test_a_gate_that_does_not_run_is_reported_in_the_words_of_the_api_server(doctor: Doctor) -> None:
    doctor.gate.stop()
    try:
        found = doctor.look()
        assert found["reachable"]["result"] == "FAIL"
        assert 'failed calling webhook "mutate.tallygate.dev"' in found["reachable"]["reason"]
        assert found["replicas"]["result"] == "UNKNOWN"
    finally:
        doctor.gate.start()
    doctor.until_wrong()


def test_a_revoked_right_is_named(doctor: Doctor) -> None:
    role = api(doctor.cluster.kubeconfig).get(_ROLE)
    index, verbs = next(
        (index, rule["verbs"]) for index, rule in enumerate(role["rules"]) if "leases" in rule["resources"]
    )
    fewer = [each for each in verbs if each != "delete"]
    doctor.patch(_ROLE, {"op": "replace", "path": f"/rules/{index}/verbs", "value": fewer})
    doctor.until_wrong(permissions="FAIL")
    assert "delete leases.coordination.k8s.io" in doctor.found["permissions"]["reason"]
    doctor.fix("permissions")
    doctor.until_wrong()


def test_a_definition_of_an_older_version_is_found_and_fixed(doctor: Doctor) -> None:
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/summary/properties/countedAt"
    doctor.patch(_DEFINITION, {"op": "remove", "path": path})
    doctor.until_wrong(crd="FAIL")
    assert "status.summary.countedAt" in doctor.found["crd"]["reason"]
    doctor.fix("crd")
    doctor.until_wrong()


@pytest.mark.parametrize(
    ("dongles", "who"), [("2", "the cap never rejects a pod"), ("9", "the quota never rejects a pod")]
)
def test_a_quota_that_contradicts_a_cap_is_found_and_fixed(
    doctor: Doctor, namespace: str, dongles: str, who: str
) -> None:
    label(doctor.cluster, namespace, {"doctor": "looks"})
    with _quota(doctor.cluster, namespace, {"requests.example.com/dongle": dongles, "pods": "50"}):
        doctor.until_wrong(quotas="WARN")
        assert who in doctor.found["quotas"]["reason"]
        doctor.fix("quotas")
        doctor.until_wrong(quotas="PASS")


def test_a_node_with_an_opaque_name_is_found_and_fixed(site: Site, doctor: Doctor) -> None:
    before = read_advertised(site.cluster, site.node)
    advertise(site.cluster, site.node, before | {"pod.alpha.kubernetes.io/opaque-int-resource-bananas": "5"})
    try:
        doctor.until_wrong(opaque_names="WARN")
        assert site.node in doctor.found["opaque-names"]["reason"]
        commands = [each for each in doctor.found["opaque-names"]["fix"] if site.node in each]
        assert len(commands) == 1
        run_kubectl(site.cluster, *shlex.split(commands[0])[1:])
        assert read_advertised(site.cluster, site.node) == before
    finally:
        advertise(site.cluster, site.node, before)


def test_policies_that_are_broken_are_found(doctor: Doctor) -> None:
    doctor.gate.write_policies(SHIPPED_FILES | {"dongles.yaml": "kind: Nothing\n"})
    doctor.until_wrong(policies="FAIL")
    assert "dongles.yaml" in doctor.found["policies"]["reason"]
    doctor.gate.write_policies(SHIPPED_FILES | {"dongles.yaml": _CAP})
    doctor.until_wrong()


def test_a_certificate_that_ends_soon_is_found_and_fixed(doctor: Doctor) -> None:
    names, made = parse_names([HERE]), datetime.now(UTC) - SERVING_LIFETIME + timedelta(days=1)
    write_serving_pair(
        doctor.gate.certificates, create_serving_certificate(read_ca(doctor.gate.certificates), names, made)
    )
    doctor.gate.reload_certificate()
    doctor.until_wrong(certificate="WARN")
    assert "tallygate certs renew certs.d/" in doctor.found["certificate"]["fix"]
    doctor.fix("certificate")
    doctor.gate.reload_certificate()
    doctor.until_wrong()


def test_an_expired_certificate_is_found_and_fixed(doctor: Doctor) -> None:
    """Ignore whether the API server still has a connection from before, and so reaches the gate."""
    names, end = parse_names([HERE]), datetime.now(UTC) + timedelta(seconds=5)
    write_serving_pair(
        doctor.gate.certificates,
        create_serving_certificate(read_ca(doctor.gate.certificates), names, end - SERVING_LIFETIME),
    )
    doctor.gate.reload_certificate()
    until("it has ended", lambda: datetime.now(UTC) > end, _WITHIN)
    wanted = {"certificate": "FAIL", "trusted": "FAIL", "replicas": "FAIL"}
    until("it is found", lambda: wanted.items() <= doctor.wrong().items(), _WITHIN, lambda: str(doctor.wrong()))
    doctor.fix("certificate")
    doctor.gate.reload_certificate()
    doctor.until_wrong()


def test_a_user_without_rights_gets_the_checks_that_he_cannot_see_as_unknown(doctor: Doctor, tmp_path: Path) -> None:
    """Run it as a ServiceAccount without any right."""
    doctor.kubeconfig = as_service_account(doctor.cluster, _OWN, "default", tmp_path / "kubeconfig")
    try:
        found = doctor.look()
    finally:
        doctor.kubeconfig = doctor.cluster.kubeconfig
    assert found["permissions"]["result"] == "UNKNOWN"
    assert found["registered"]["result"] == "UNKNOWN"
    assert "forbidden" in found["registered"]["reason"]
    assert not [name for name, each in found.items() if each["result"] in {"FAIL", "WARN"} and name not in _OTHERS]


def test_a_cluster_that_does_not_answer_is_a_usage_error(doctor: Doctor, tmp_path: Path) -> None:
    away = yaml.safe_load(doctor.cluster.kubeconfig.read_text())
    away["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    (tmp_path / "away").write_text(json.dumps(away))
    shown = doctor.run_tallygate("doctor", "--kubeconfig", str(tmp_path / "away"))
    assert shown.returncode == 2
    assert shown.stderr.startswith("tallygate: the API server at https://127.0.0.1:9 does not answer: ")
