"""CapUsages: a tenant reads in his own namespace what a cap allows, and nothing of other namespaces."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from e2e.api import Object, api
from e2e.command_output import run_kubectl
from e2e.definitions import apply_definitions
from e2e.gates.process import GateProcess
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, submit
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Site
from e2e.self_registration import run_registering_gate
from e2e.service_account import as_service_account, gates_account
from e2e.waiting import until
from tallygate.state.kubernetes.applied_objects import USAGE_ROLE

_COMPONENT = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "publish-usage"
_GROUP = "/apis/tallygate.dev/v1alpha1"
_CAPS = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{include: ["%(own)s"]}}
  hard: {{{DONGLE}: 3}}
  overrides: [{{hard: {{{DONGLE}: 5}}, until: 2099-01-01T00:00:00Z}}]
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: together}}
spec:
  namespaces: {{include: ["%(own)s", "%(other)s"]}}
  shared: true
  hard: {{{DONGLE}: 9}}
"""
_WITHIN = 120.0


class _Reader:
    """The ServiceAccount `reader` of a namespace: it has the role `view` there, and no other right."""

    def __init__(self, site: Site, namespace: str, folder: Path) -> None:
        self._cluster, self._namespace = site.cluster, namespace
        run_kubectl(site.cluster, "create", "serviceaccount", "reader", f"--namespace={namespace}")
        binding = "create", "rolebinding", "reader", "--clusterrole=view", f"--serviceaccount={namespace}:reader"
        run_kubectl(site.cluster, *binding, f"--namespace={namespace}")
        self._kubeconfig = as_service_account(site.cluster, namespace, "reader", folder / "reader")

    def kubectl(self, *arguments: str) -> CompletedProcess[str]:
        """Run kubectl as the account, in its namespace."""
        return self._cluster.kubectl(f"--kubeconfig={self._kubeconfig}", f"--namespace={self._namespace}", *arguments)

    def list_lines(self) -> list[list[str]]:
        """Return the words of each line of `kubectl get capusages`, without those of the header and the age."""
        lines = self.kubectl("get", "capusages").stdout.splitlines()
        return [line.split()[:-1] for line in lines[1:]]


@pytest.fixture
def other(site: Site) -> Iterator[str]:
    """Yield another namespace."""
    with new_namespace(site.cluster) as name:
        yield name


@pytest.fixture
def publishing_gate(site: Site, tmp_path: Path, namespace: str, other: str) -> Iterator[GateProcess]:
    """Run a gate with the component `publish-usage`, and two caps in the namespace, one of which the other shares."""
    apply_definitions(site.cluster, [_COMPONENT / "crd.yaml", _COMPONENT / "view.yaml"])
    policies = SHIPPED_FILES | {"caps.yaml": _CAPS % {"own": namespace, "other": other}}
    arguments, components = ("--in-flight-bound=2s", "--publish-usage=on"), ("cluster-access", "publish-usage")
    with run_registering_gate(site, tmp_path, policies, components=components, arguments=arguments) as gate:
        try:
            until("the caps are active", partial(_are_active, site, namespace), _WITHIN, gate.log)
            yield gate
        finally:
            gate.stop()
            gates_account(site.cluster, tmp_path, "cluster-access")  # without the role of the component
            run_kubectl(site.cluster, "delete", *(f"--filename={_COMPONENT / each}.yaml" for each in ("crd", "view")))


def _list_usages(site: Site, namespace: str = "") -> list[Object]:
    scope = f"namespaces/{namespace}/" if namespace else ""
    return api(site.cluster.kubeconfig).items(f"{_GROUP}/{scope}capusages")


def _are_active(site: Site, namespace: str) -> bool:
    usages = _list_usages(site, namespace)
    return len(usages) == 2 and all(each["status"]["state"] == "active" for each in usages)


def test_a_tenant_with_view_reads_his_limits_and_what_is_used_and_free(
    site: Site, namespace: str, other: str, publishing_gate: GateProcess, tmp_path: Path
) -> None:
    reader, end = _Reader(site, namespace, tmp_path), "2099-01-01T00:00Z"
    lines = [
        ["dongles", DONGLE, "0/5", DONGLE, "5", end, "active"],
        ["together", DONGLE, "0/9", DONGLE, "9", "active"],
    ]
    until("he sees both caps", lambda: reader.list_lines() == lines, _WITHIN, publishing_gate.log)
    assert reader.kubectl("get", "capuse").stdout.split()[:7] == ["NAME", "USED", "FREE", "UNTIL", "STATE", "AS", "OF"]
    assert submit(site, namespace, "own", "2").is_done
    assert submit(site, other, "others", "4").is_done
    lines = [
        ["dongles", DONGLE, "2/5", DONGLE, "3", end, "active"],
        ["together", DONGLE, "6/9", DONGLE, "3", "active"],
    ]
    until("both pods count", lambda: reader.list_lines() == lines, _WITHIN, publishing_gate.log)


def test_nothing_of_other_namespaces_is_shown_and_nothing_may_be_written(
    site: Site, namespace: str, other: str, publishing_gate: GateProcess, tmp_path: Path
) -> None:
    reader = _Reader(site, namespace, tmp_path)
    until("he may read", lambda: bool(reader.list_lines()), _WITHIN, publishing_gate.log)
    assert submit(site, other, "others", "4").is_done
    shown = partial(reader.kubectl, "get", "capusages", "--output=yaml", "--show-managed-fields")
    until("the other's pod counts", lambda: f"{DONGLE} 4/9" in shown().stdout, _WITHIN, publishing_gate.log)
    assert other not in shown().stdout
    for arguments in (
        ("get", "capusages", "--all-namespaces"),
        ("get", "capusages", f"--namespace={other}"),
        ("delete", "capusages", "dongles"),
    ):
        assert "is forbidden" in reader.kubectl(*arguments).stderr, arguments


def test_an_unchanged_object_is_not_written_again(
    site: Site, namespace: str, other: str, publishing_gate: GateProcess
) -> None:
    """Let two passes write the shared cap meanwhile."""
    before = _get_version(site, namespace, "dongles")
    for number in (1, 2):
        assert submit(site, other, f"pod-{number}").is_done
        counted = partial(_get_used, site, namespace, "together")
        until("it counts", lambda: counted() == f"{DONGLE} {number}/9", _WITHIN, publishing_gate.log)  # noqa: B023  # called in the loop
    assert _get_version(site, namespace, "dongles") == before


def test_objects_of_removed_caps_are_deleted_and_others_stay(
    site: Site, namespace: str, other: str, publishing_gate: GateProcess
) -> None:
    assert {each["metadata"]["name"] for each in _list_usages(site, other)} == {"together"}
    caps = _CAPS % {"own": namespace, "other": "no-such-namespace"}
    publishing_gate.write_policies(SHIPPED_FILES | {"caps.yaml": caps.partition("---")[2]})
    until("one is left", lambda: _list_names(site) == [(namespace, "together")], _WITHIN, publishing_gate.log)


def test_all_objects_belong_to_the_right_to_publish_them(site: Site, publishing_gate: GateProcess) -> None:
    owners = [owner["name"] for each in _list_usages(site) for owner in each["metadata"]["ownerReferences"]]
    assert owners == [USAGE_ROLE] * 3
    publishing_gate.kill()
    run_kubectl(site.cluster, "delete", "clusterrole", USAGE_ROLE)
    until("they are deleted", lambda: not _list_usages(site), _WITHIN)


def _list_names(site: Site) -> list[tuple[str, str]]:
    return [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in _list_usages(site)]


def _get_usage(site: Site, namespace: str, cap: str) -> Object:
    return api(site.cluster.kubeconfig).get(f"{_GROUP}/namespaces/{namespace}/capusages/{cap}")


def _get_version(site: Site, namespace: str, cap: str) -> str:
    return str(_get_usage(site, namespace, cap)["metadata"]["resourceVersion"])


def _get_used(site: Site, namespace: str, cap: str) -> str:
    return str(_get_usage(site, namespace, cap)["status"]["summary"]["used"])
