"""Compiled ResourceQuotas without a gate: they deny no pod that the gate would admit, and kubectl prunes them.

The decision of the gate on a pod is that of `tallygate check` with a snapshot of the cluster at that time.
"""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import yaml

from e2e.api import Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.counted_quotas import wait_for_count
from e2e.namespaces import new_namespace
from e2e.pods import pod as make_pod
from e2e.ports import Cluster, Site

_GPU, _LICENCE = "example.com/gpu", "example.com/licence"
_SCOPED_CLASS = "compiled-quotas"
_STEPS = 50

_EXACT: dict[str, Object] = {
    "gpus": {"hard": {_GPU: 6, "pods": 7}},
    "storage": {"hard": {"ephemeral-storage": "3Gi", "hugepages-2Mi": "8Mi"}},
    "batch": {"hard": {_GPU: 2, "pods": 3}, "pods": {"priorityClasses": [_SCOPED_CLASS]}},
}
"""Caps without a gap: ResourceQuota and cap decide the same."""
_LOOSER: dict[str, Object] = {
    "shared": {"hard": {_GPU: 9, "pods": 12}, "shared": True},
    "sum": {"hard": {"units": 24}, "counts": {"units": {"weights": {_GPU: 4, _LICENCE: 1}}}},
    "memory": {"hard": {"limits.memory": "3Gi", "limits.cpu": 4}, "pods": {"priorityClasses": [_SCOPED_CLASS]}},
    "raised": {
        "hard": {_LICENCE: 4},
        "surge": {"amounts": {_LICENCE: 1}, "for": "15m"},
        "overrideAnnotation": {"setBy": {"groups": ["admins"]}, "most": {_LICENCE: 6}},
    },
    "emergency": {"hard": {_GPU: 1}, "exceed": {"groups": ["sre"]}},
    "requests": {"hard": {"cpu": "500m", "pods": 9}, "workloads": "deny"},
}
"""Caps with gaps: only what ResourceQuota denies is compared."""


class _Setting(NamedTuple):
    """A cluster with compiled quotas in some namespaces, and the file of their policies."""

    site: Site
    namespaces: tuple[str, ...]
    policies: Path
    quotas: tuple[Object, ...]

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.site.cluster

    def list_pods(self, namespace: str) -> list[Object]:
        """Return the stored pods of a namespace."""
        return api(self.cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")

    def check(self, folder: Path, pod: Object, namespace: str) -> list[str]:
        """Return the codes of the errors of `tallygate check` for a new pod, with the pods of the cluster."""
        state, file = folder / "state.json", folder / "pod.json"
        done = run_tallygate(self.cluster, "snapshot", str(state))
        assert done.returncode == 0, done.stderr
        file.write_text(json.dumps(pod))
        options = (f"--policies={self.policies}", f"--snapshot={state}", f"--namespace={namespace}", "-ojson")
        done = run_tallygate(self.cluster, "check", *options, str(file))
        assert done.returncode in {0, 1}, done.stderr
        return [each["code"] for each in json.loads(done.stdout)["findings"] if each["level"] == "error"]


def _write_caps(caps: Mapping[str, Object], namespaces: tuple[str, ...], file: Path) -> Path:
    file.write_text(
        yaml.safe_dump_all(
            {
                "apiVersion": "tallygate.dev/v1alpha1",
                "kind": "NamespaceCap",
                "metadata": {"name": name},
                "spec": {**spec, "namespaces": {"include": list(namespaces)}},
            }
            for name, spec in caps.items()
        )
    )
    return file


@pytest.fixture(scope="module", autouse=True)
def priority_class(cluster: Cluster) -> Iterator[None]:
    """Create the priority class of some pods."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api(cluster.kubeconfig).create(path, {"metadata": {"name": _SCOPED_CLASS}, "value": 5})
    yield
    api(cluster.kubeconfig).delete(f"{path}/{_SCOPED_CLASS}")


@pytest.fixture
def setting(site: Site, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Setting]:
    """Yield namespaces with the computed quotas of these caps."""
    with ExitStack() as ends:
        namespaces = tuple(ends.enter_context(new_namespace(site.cluster)) for _ in range(2))
        policies = _write_caps(request.param, namespaces, tmp_path / "caps.yaml")
        done = run_tallygate(site.cluster, "compile", str(policies))
        assert done.returncode == 0, done.stderr
        run_kubectl(site.cluster, "apply", "--filename=-", stdin=done.stdout)
        quotas = tuple(yaml.safe_load_all(done.stdout))
        yield _Setting(site, namespaces, policies, quotas)


def _wait_for_count(setting: _Setting) -> None:
    """Wait until each quota has counted the stored pods."""
    wait_for_count(api(setting.cluster.kubeconfig), setting.quotas)


def _draw_pod(site: Site, chance: random.Random) -> Object:
    pod: Object = make_pod(site, f"p-{uuid4().hex[:8]}")
    amounts = {
        name: amount
        for name, amount in (
            (_GPU, chance.choice(["0", "1", "1", "2", "3"])),
            (_LICENCE, chance.choice(["1", "2"])),
            ("memory", chance.choice(["512Mi", "1Gi"])),
            ("cpu", chance.choice(["250m", "1"])),
            ("ephemeral-storage", "512Mi"),
        )
        if chance.random() < 0.5
    }
    if "memory" in amounts and chance.random() < 0.3:
        amounts["hugepages-2Mi"] = "2Mi"
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    if chance.random() < 0.3:
        pod["spec"]["priorityClassName"] = _SCOPED_CLASS
    return pod


def _end_one(setting: _Setting, namespace: str, chance: random.Random) -> None:
    """Delete a pod of a namespace, or let it succeed, and wait until the quotas have counted that."""
    pods = [each for each in setting.list_pods(namespace) if each.get("status", {}).get("phase") != "Succeeded"]
    if not pods:
        return
    path = f"/api/v1/namespaces/{namespace}/pods/{chance.choice(pods)['metadata']['name']}"
    if chance.random() < 0.5:
        api(setting.cluster.kubeconfig).delete(path, gracePeriodSeconds="0")
    else:
        api(setting.cluster.kubeconfig).patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
    _wait_for_count(setting)


@pytest.mark.parametrize(
    ("setting", "is_exact"), [(_EXACT, True), (_LOOSER, False)], indirect=["setting"], ids=["exact", "looser"]
)
def test_no_pod_is_denied_by_compiled_quotas_alone(setting: _Setting, tmp_path: Path, *, is_exact: bool) -> None:
    """Create pods without a gate; what a quota denies is denied by the caps too, and of exact caps the opposite."""
    _wait_for_count(setting)
    chance = random.Random(20261129)  # noqa: S311  no secret
    denied = admitted = 0
    for _ in range(_STEPS):
        namespace = chance.choice(setting.namespaces)
        if chance.random() < 0.15:
            _end_one(setting, namespace, chance)
        pod = _draw_pod(setting.site, chance)
        path = f"/api/v1/namespaces/{namespace}/pods"
        preview = api(setting.cluster.kubeconfig).ask("POST", path, pod, query={"dryRun": "All"})
        if is_exact or not preview.is_done:
            codes = setting.check(tmp_path, pod, namespace)
            assert bool(codes) or preview.is_done, (namespace, pod, preview.rejection)
            assert not (is_exact and codes and preview.is_done), (namespace, pod, codes)
        if preview.is_done:
            api(setting.cluster.kubeconfig).create(path, pod)
            _wait_for_count(setting)
        denied, admitted = denied + (not preview.is_done), admitted + preview.is_done
    assert denied >= _STEPS // 6
    assert admitted >= _STEPS // 6


@pytest.mark.parametrize("setting", [_EXACT | _LOOSER], indirect=True, ids=["all"])
def test_applied_quotas_are_as_compiled_until_one_is_changed(setting: _Setting) -> None:
    """Compare with a file of the policies; other cases of the run have compiled quotas in other namespaces."""
    assert _list_differences(setting) == []
    changed = setting.quotas[0]["metadata"]
    path = f"/api/v1/namespaces/{changed['namespace']}/resourcequotas/{changed['name']}"
    api(setting.cluster.kubeconfig).patch(path, {"spec": {"hard": {"pods": "1000"}}})
    assert _list_differences(setting) == [f"other ResourceQuota {changed['name']}"]
    run_kubectl(setting.cluster, "delete", "resourcequota", changed["name"], f"--namespace={changed['namespace']}")
    assert _list_differences(setting) == [f"missing ResourceQuota {changed['name']}"]


def _list_differences(setting: _Setting) -> list[str]:
    done = run_tallygate(setting.cluster, "compile", str(setting.policies), "--check", "-ojson")
    assert done.returncode in {0, 1}, done.stderr
    items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return [
        f"{each['difference']} {each['kind']} {each['name']}"
        for each in items
        if each["namespace"] in setting.namespaces
    ]


@pytest.mark.parametrize("setting", [_EXACT], indirect=True, ids=["exact"])
def test_kubectl_prunes_the_quotas_of_a_removed_cap(setting: _Setting, tmp_path: Path) -> None:
    caps = {name: spec for name, spec in _EXACT.items() if name != "gpus"}
    done = run_tallygate(
        setting.cluster, "compile", str(_write_caps(caps, setting.namespaces, tmp_path / "fewer.yaml"))
    )
    command = (
        "apply --prune --selector=tallygate.dev/compiled-from --prune-allowlist=core/v1/ResourceQuota --filename=-"
    )
    run_kubectl(setting.cluster, *command.split(), stdin=done.stdout)
    quotas = api(setting.cluster.kubeconfig).items(f"/api/v1/namespaces/{setting.namespaces[0]}/resourcequotas")
    assert sorted(quota["metadata"]["name"] for quota in quotas) == ["tallygate-batch", "tallygate-storage"]
