"""The profile `available`: the gate keeps a backstop in the cluster, which enforces what it can without the gate."""

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from e2e.api import Answer, Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.gates.process import GateProcess
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, list_stored, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Site
from e2e.self_registration import run_registering_gate
from e2e.service_account import gates_account
from e2e.waiting import until
from tallygate.policy.model import COMPILED_FROM_LABEL
from tallygate.state.kubernetes.applied_objects import BACKSTOP_ROLE

_HARD = 2
_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{include: ["%s"]}}
  hard: {{{DONGLE}: {_HARD}}}
"""
_FEW = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: few-dongles}
spec:
  resources: [example.com/dongle]
  checks: {perContainer: {max: 1}}
"""
_WITHIN = 120.0
_CREATED, _FORBIDDEN, _INVALID = HTTPStatus.CREATED, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY


@pytest.fixture
def available_gate(site: Site, tmp_path: Path, namespace: str) -> Iterator[GateProcess]:
    """Run a gate as the overlay `available` does, with a rule and a cap on dongles in the namespace."""
    policies = SHIPPED_FILES | {"dongles.yaml": _CAP % namespace, "few.yaml": _FEW}
    arguments = "--in-flight-bound=2s", "--backstop=on"
    components = "cluster-access", "backstop"
    with run_registering_gate(
        site, tmp_path, policies, components=components, arguments=arguments, failure_policy="Ignore"
    ) as gate:
        try:
            until("the backstop is there", lambda: len(_list_backstop(site)) >= 3, _WITHIN, gate.log)
            yield gate
        finally:
            gate.stop()
            gates_account(site.cluster, tmp_path, "cluster-access")  # without the role of the backstop
            kinds = "validatingadmissionpolicybindings,validatingadmissionpolicies,resourcequotas"
            run_kubectl(site.cluster, "delete", kinds, "--all-namespaces", f"--selector={COMPILED_FROM_LABEL}")


def _list_backstop(site: Site) -> list[Object]:
    client, selector = api(site.cluster.kubeconfig), {"labelSelector": COMPILED_FROM_LABEL}
    group = "/apis/admissionregistration.k8s.io/v1"
    paths = (
        f"{group}/validatingadmissionpolicies",
        f"{group}/validatingadmissionpolicybindings",
        "/api/v1/resourcequotas",
    )
    return [item for path in paths for item in client.items(path, **selector)]


def _create(site: Site, namespace: str, name: str, amount: str, *, dry_run: bool = False) -> Answer:
    query = {"dryRun": "All"} if dry_run else {}
    path = f"/api/v1/namespaces/{namespace}/pods"
    return api(site.cluster.kubeconfig).ask("POST", path, pod(site, name, amount), query=query)


def _until_enforced_without_gate(site: Site, namespace: str) -> None:
    """Wait until the API server evaluates the policies itself, some moments after it has stored them."""
    denied = partial(_create, site, namespace, "probe", "2", dry_run=True)
    until("the policy is evaluated", lambda: "ValidatingAdmissionPolicy" in denied().messages, _WITHIN)


def test_rules_and_caps_hold_while_the_gate_is_away_and_no_create_fails_for_it(
    site: Site, namespace: str, available_gate: GateProcess
) -> None:
    available_gate.kill()
    _until_enforced_without_gate(site, namespace)
    half = _create(site, namespace, "half", "500m")
    assert half.status in {_FORBIDDEN, _INVALID}
    many = _create(site, namespace, "many", "2")
    assert many.status in {_FORBIDDEN, _INVALID}
    assert "(TG1" in many.messages
    assert "few-dongles" in many.messages
    answers = [_create(site, namespace, f"one-{number}", "1").status for number in range(_HARD + 1)]
    assert answers == [_CREATED] * _HARD + [_FORBIDDEN]
    with new_namespace(site.cluster) as other:
        assert _create(site, other, "elsewhere", "1").status == _CREATED
    assert list_stored(site, namespace) == {f"one-{number}" for number in range(_HARD)}


def test_the_gate_says_why_while_it_answers_and_counts_what_was_stored_without_it(
    site: Site, namespace: str, available_gate: GateProcess
) -> None:
    """Read the gate's own sentence: webhooks come before the quota."""
    available_gate.kill()
    _until_enforced_without_gate(site, namespace)
    for number in range(_HARD):
        assert _create(site, namespace, f"one-{number}", "1").status == _CREATED
    available_gate.start()
    asked = partial(_create, site, namespace, "late", "1", dry_run=True)
    until("the gate counts them", lambda: "(TG201, cap dongles)" in asked().messages, _WITHIN, available_gate.log)


def test_the_backstop_follows_the_policies_and_what_users_change_in_it(
    site: Site, namespace: str, available_gate: GateProcess
) -> None:
    run_kubectl(site.cluster, "delete", "resourcequotas", "-n", namespace, f"--selector={COMPILED_FROM_LABEL}")
    kinds = partial(_list_kinds_in, site, namespace)
    until("the quota is there again", lambda: kinds() == ["NamespaceCap"], _WITHIN, available_gate.log)
    policies = str(available_gate.policies)
    checked = run_tallygate(site.cluster, "compile", policies, "--check")
    assert "no difference" in checked.stderr, checked.stdout
    available_gate.write_policies(SHIPPED_FILES | {"few.yaml": _FEW})
    until("the quota is deleted", lambda: kinds() == [], _WITHIN, available_gate.log)


def test_the_backstop_belongs_to_the_right_to_keep_it(site: Site, namespace: str, available_gate: GateProcess) -> None:
    """Remove the role, as the profile `strict` and an uninstallation do: the garbage collector deletes the rest."""
    owners = [owner["name"] for each in _list_backstop(site) for owner in each["metadata"]["ownerReferences"]]
    assert owners
    assert set(owners) == {BACKSTOP_ROLE}
    available_gate.kill()
    run_kubectl(site.cluster, "delete", "clusterrole", BACKSTOP_ROLE)
    until("the backstop is deleted", lambda: not _list_backstop(site), _WITHIN)
    # the API server follows policies with a delay
    until("pods are stored", lambda: _create(site, namespace, "two", "2").status == _CREATED, _WITHIN)


def _list_kinds_in(site: Site, namespace: str) -> list[str]:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    quotas = api(site.cluster.kubeconfig).items(path, labelSelector=COMPILED_FROM_LABEL)
    return [each["metadata"]["labels"][COMPILED_FROM_LABEL] for each in quotas]
