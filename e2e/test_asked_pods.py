"""The gate is asked about what its policies concern: other pods do not notice whether it runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.api import Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.gates.process import GateProcess
from e2e.load import STORED, Clients
from e2e.namespaces import label, new_namespace
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Site
from e2e.registering import CONFIGURATIONS, CalledGate
from e2e.self_registration import read_registration, run_registering_gate, run_registering_gates
from e2e.waiting import until
from tallygate.policy.model import COMPILED_FROM_LABEL

_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: %s}
spec:
  namespaces: {include: ["%s"]}
  hard: {%s: %s}
"""
_DONGLE = "example.com/dongle"
_BY_LABEL = "labels-1.validate.tallygate.dev"
_PLAIN = 500
_RULES = "validatingadmissionpolicybindings,validatingadmissionpolicies"
_CALLS = "apiserver_admission_webhook_admission_duration_seconds_count"
_WITHIN = 240.0  # seconds; a new cap is active after some hundred


@pytest.fixture
def quiet_gate(site: Site, tmp_path: Path, namespace: str) -> Iterator[GateProcess]:
    """Run a gate that has registered itself, with the shipped rules and a cap on dongles in the namespace."""
    policies = SHIPPED_FILES | {"dongles.yaml": _CAP % ("dongles", namespace, _DONGLE, 1)}
    with run_registering_gate(site, tmp_path, policies) as gate:
        yield gate


def _pod(site: Site, name: str, amounts: Object) -> Object:
    resources = {"requests": amounts, "limits": amounts}
    spec = {"containers": [{"name": "main", "image": site.image, "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _create(site: Site, namespace: str, name: str, amounts: Object, *, dry_run: bool = False) -> tuple[int, str]:
    query = {"dryRun": "All"} if dry_run else {}
    path = f"/api/v1/namespaces/{namespace}/pods"
    answer = api(site.cluster.kubeconfig).ask("POST", path, _pod(site, name, amounts), query=query)
    return answer.status, answer.body


def _until_rejected(site: Site, namespace: str, amounts: Object, code: str, gate: CalledGate) -> None:
    def is_rejected() -> bool:
        status, text = _create(site, namespace, "probe", amounts, dry_run=True)
        return status == 403 and code in text

    until(f"{amounts} is rejected", is_rejected, _WITHIN, gate.log)


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_pods_that_nothing_counts_are_created_while_both_gates_are_away(
    site: Site, namespace: str, tmp_path: Path, failure_policy: str
) -> None:
    """Kill two gates: 500 pods are stored without a call; those with dongles fail, or compiled quotas count them."""
    policies = SHIPPED_FILES | {"dongles.yaml": _CAP % ("dongles", namespace, _DONGLE, 1)}
    with ExitStack() as ends:
        gates = ends.enter_context(run_registering_gates(site, tmp_path, policies, failure_policy))
        _until_rejected(site, namespace, {_DONGLE: "2"}, "TG201", gates)
        if failure_policy == "Ignore":
            ends.enter_context(_apply_backstop(site, gates.each[0].policies))
        calls = _count_calls(site)
        assert _create(site, namespace, "asked", {_DONGLE: "1"}, dry_run=True)[0] == 201
        assert _count_calls(site) == calls + 1
        for gate in gates.each:
            gate.kill()
        plain = [_pod(site, f"plain-{number}", {"cpu": "1m", "memory": "1Mi"}) for number in range(_PLAIN)]
        with Clients(site.cluster, namespace) as clients:
            answers = clients.create(plain)
        assert [answer for answer in answers if answer.status != STORED] == []
        assert _count_calls(site) == calls + 1
        first, second = (_create(site, namespace, name, {_DONGLE: "1"}) for name in ("dongle", "another"))
        assert _count_calls(site) == calls + 3
    if failure_policy == "Ignore":
        assert (first[0], second[0]) == (201, 403), second
        assert "exceeded quota" in second[1]
    else:
        assert (first[0], second[0]) == (500, 500), first
        assert "failed calling webhook" in first[1]


@contextmanager
def _apply_backstop(site: Site, policies: Path) -> Iterator[None]:
    """Apply the objects that are compiled from a folder of policies; yield when the quotas count."""
    done = run_tallygate(site.cluster, "compile", str(policies))
    assert done.returncode == 0, done.stderr
    run_kubectl(site.cluster, "apply", "--filename=-", stdin=done.stdout)
    try:
        (path,) = (
            f"/api/v1/namespaces/{each['metadata']['namespace']}/resourcequotas/{each['metadata']['name']}"
            for each in yaml.safe_load_all(done.stdout)
            if each["kind"] == "ResourceQuota"
        )
        stored = partial(api(site.cluster.kubeconfig).get, path)
        until("the quota counts", lambda: "used" in stored().get("status", {}), _WITHIN)
        yield
    finally:
        run_kubectl(site.cluster, "delete", _RULES, f"--selector={COMPILED_FROM_LABEL}", "--ignore-not-found")


def test_a_cap_decides_once_it_is_asked_about(site: Site, namespace: str, quiet_gate: GateProcess) -> None:
    """Add a cap on pods: the registration becomes wider, what runs is counted, then the next pod is rejected."""
    path = CONFIGURATIONS["ValidatingWebhookConfiguration"]
    conditions = partial(_read_conditions, site, path)
    assert conditions()
    assert _create(site, namespace, "first", {"cpu": "1m"})[0] == 201
    pods = SHIPPED_FILES | {
        "dongles.yaml": _CAP % ("dongles", namespace, _DONGLE, 1),
        "pods.yaml": _CAP % ("pods", namespace, "pods", 1),
    }
    narrow = conditions()
    quiet_gate.write_policies(pods)
    until("it asks about more", lambda: conditions() != narrow, _WITHIN, quiet_gate.log)
    _until_rejected(site, namespace, {"cpu": "1m"}, "TG201", quiet_gate)
    assert "waitingPolicies" not in read_registration(quiet_gate)


def test_a_cap_by_label_is_asked_about_where_the_label_is(site: Site, namespace: str, quiet_gate: GateProcess) -> None:
    """Label one of two namespaces, then the other one: the API server asks where the label is, and nowhere else."""
    tier = {"example.com/tier": namespace}
    cap = _CAP.replace('include: ["%s"]', "selector: {matchLabels: {example.com/tier: %s}}")
    with new_namespace(site.cluster) as other:
        label(site.cluster, namespace, tier)
        quiet_gate.write_policies(SHIPPED_FILES | {"tier.yaml": cap % ("tier", namespace, "pods", 1)})
        assert _create(site, namespace, "first", {"cpu": "1m"})[0] == 201
        _until_rejected(site, namespace, {"cpu": "1m"}, "TG201", quiet_gate)
        by_name, by_label = _count_calls(site), _count_calls(site, _BY_LABEL)
        status, text = _create(site, namespace, "second", {"cpu": "1m"})
        assert (status, f'webhook \\"{_BY_LABEL}\\" denied' in text) == (403, True), text
        for number in range(20):
            assert _create(site, other, f"plain-{number}", {"cpu": "1m"})[0] == 201
        assert (_count_calls(site), _count_calls(site, _BY_LABEL)) == (by_name, by_label + 1)
        assert _create(site, namespace, "dongle", {_DONGLE: "1"})[0] == 403
        assert (_count_calls(site), _count_calls(site, _BY_LABEL)) == (by_name + 1, by_label + 1)
        quiet_gate.kill()
        assert _create(site, other, "plain-20", {"cpu": "1m"})[0] == 201
        assert _create(site, namespace, "third", {"cpu": "1m"})[0] == 500
        label(site.cluster, namespace, dict.fromkeys(tier))
        until("it is not asked", lambda: _create(site, namespace, "third", {"cpu": "1m"})[0] == 201, _WITHIN)
        label(site.cluster, other, tier)
        until("it is asked", lambda: _create(site, other, "x", {"cpu": "1m"}, dry_run=True)[0] == 500, _WITHIN)


_WITHOUT_CONTAINERS: dict[str, tuple[str, Object]] = {
    "Pod": ("v1", {"spec": {}}),
    "Deployment": ("apps/v1", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}}}),
    "CronJob": ("batch/v1", {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": {}}}}}}),
    "PodTemplate": ("v1", {"template": {"spec": {}}}),
}


def test_an_object_without_containers_is_rejected_by_the_api_server_in_its_own_words(
    site: Site, namespace: str, quiet_gate: GateProcess
) -> None:
    """Expect no condition that fails: it would reject the object with a text of the expression."""
    quiet_gate.check()
    ours = api(site.cluster.kubeconfig)
    for kind, (version, body) in _WITHOUT_CONTAINERS.items():
        manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "empty"}, **body}
        answer = ours.ask("POST", ours.collection(manifest, namespace), manifest)
        assert (answer.status, "containers: Required value" in answer.body) == (422, True), answer.body
        assert "expression" not in answer.body
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "empty"}, "spec": {}}
    assert "expression" not in ours.ask("POST", ours.collection(limits, namespace), limits).body


def _count_calls(site: Site, name: str = "validate.tallygate.dev") -> int:
    """Return the calls of a webhook for new objects, failed ones too, as the API server counts them."""
    lines = api(site.cluster.kubeconfig).ask("GET", "/metrics").body.splitlines()
    prefix, webhook, create = f"{_CALLS}{{", f'name="{name}"', 'operation="CREATE"'
    found = [line for line in lines if line.startswith(prefix) and webhook in line and create in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in found)


def _read_conditions(site: Site, path: str) -> list[str]:
    """Return the conditions of the policies by which new objects are asked about."""
    webhook = api(site.cluster.kubeconfig).get(path)["webhooks"][0]
    return [
        condition["expression"]
        for condition in webhook.get("matchConditions", ())
        if condition["name"] == "a-policy-may-decide"
    ]
