"""deploy/ on a real API server: every object of every overlay is accepted, and the chart's are the same."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.gates.process import GateProcess
from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import HelmInstall, InstallMethod, KustomizeInstall
from e2e.installation.pages import read_commands
from e2e.installation.rendered import (
    CHART,
    KUSTOMIZE,
    OVERLAYS,
    Object,
    render_overlay,
    render_own_overlay,
    run_helm,
    to_list,
)
from e2e.installation.third_party_kinds import install_foreign_kinds
from e2e.installation.uninstalling import uninstall
from e2e.ports import Cluster, NotHereError, Site

_OWN = "tallygate-system"
_EXTRAS = ("serviceMonitor", "prometheusRule", "dashboard", "ask", "relay")
_DIGEST = f"sha256:{'1' * 64}"
_POD_VALUES = {
    "hostNetwork": True,
    "ports": {"https": 10443, "monitor": 10090},
    "relay": {
        "enabled": True,
        "image": {"digest": _DIGEST, "pullPolicy": "Always"},
        "ports": {"upstream": 10444, "monitor": 10091},
    },
    "image": {"digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "nodeSelector": {"pool": "system"},
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [
        {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "podAnnotations": {"example.com/scanned": "yes"},
    "podLabels": {"team": "platform"},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
    "extraArgs": ["--log-level=debug"],
}
_EVERYTHING = (
    "ha",
    "self-signed",
    "network",
    "flow-control",
    "monitoring",
    "dashboard",
    "audit",
    "token",
    "ask",
    "relay",
)


@pytest.fixture(scope="module")
def install_cluster(site: Site) -> Iterator[Cluster]:
    """Yield the cluster with the gate's namespace, without which nothing in it can be tried, and the foreign kinds."""
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("an overlay is installed there, and kubectl warns of whatever it finds")
    uninstall(site.cluster)  # what other cases have left of it, which Helm would not take over
    with install_foreign_kinds(site.cluster):
        _run_kubectl(site.cluster, "apply", f"--filename={KUSTOMIZE / 'base' / 'namespace.yaml'}")
        yield site.cluster


def _run_kubectl(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    # No warning either, but for one of kubectl's about who applied the namespace before.
    assert [line for line in done.stderr.splitlines() if "last-applied-configuration" not in line] == []
    return done.stdout


def _try_objects(cluster: Cluster, objects: list[Object]) -> None:
    """Apply every object in a dry run by the server, without a warning and with all of its fields known."""
    arguments = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-")
    output = _run_kubectl(cluster, "apply", *arguments, stdin=to_list(objects))
    assert len(output.splitlines()) == len(objects)


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_api_server_takes_every_object_of_an_overlay(install_cluster: Cluster, name: str) -> None:
    _try_objects(install_cluster, render_overlay(install_cluster, name))


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_api_server_takes_every_object_of_an_overlay_with_a_relay(install_cluster: Cluster, name: str) -> None:
    _try_objects(install_cluster, render_own_overlay(install_cluster, KUSTOMIZE / "overlays" / name, {}, ["relay"]))


def test_the_api_server_hands_its_token_to_the_gate_and_not_to_the_relay(install_cluster: Cluster) -> None:
    """Check a pod of the Deployment, as it is after admission: Pod Security, priority, ServiceAccount."""
    objects = render_own_overlay(install_cluster, KUSTOMIZE / "overlays" / "ha", {}, ["relay"])
    (account,) = (each for each in objects if each["kind"] == "ServiceAccount")
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    made = {**template, "apiVersion": "v1", "kind": "Pod"}
    made["metadata"] = {**template["metadata"], "name": "tried", "namespace": _OWN}
    _run_kubectl(install_cluster, "apply", "--filename=-", stdin=json.dumps(account))
    try:
        output = _run_kubectl(
            install_cluster, "create", "--dry-run=server", "--output=json", "--filename=-", stdin=json.dumps(made)
        )
    finally:
        _run_kubectl(install_cluster, "delete", "serviceaccount", "tallygate", f"--namespace={_OWN}")
    admitted = json.loads(output)["spec"]
    secret = {volume["name"] for volume in admitted["volumes"] if "serviceAccountToken" in json.dumps(volume)}
    mounts = {each["name"]: {mount["name"] for mount in each["volumeMounts"]} for each in admitted["containers"]}
    assert len(secret) == 1
    assert secret <= mounts["tallygate"]
    assert mounts["relay"] == {"relay-configuration", "relay", "no-token"}


def test_an_overlay_names_the_images_of_the_gate_and_of_the_relay(install_cluster: Cluster) -> None:
    images = [
        {"name": "tallygate", "newName": "registry.example.com/tallygate", "newTag": "0.1.0"},
        {"name": "haproxy", "newName": "registry.example.com/haproxy", "digest": _DIGEST},
    ]
    objects = render_own_overlay(install_cluster, KUSTOMIZE / "overlays" / "ha", {"images": images}, ["relay"])
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    containers = deployment["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["image"] for each in containers} == {
        "tallygate": "registry.example.com/tallygate:0.1.0",
        "relay": f"registry.example.com/haproxy@{_DIGEST}",
    }


def test_the_api_server_accepts_all_components_together(install_cluster: Cluster) -> None:
    _try_objects(install_cluster, render_own_overlay(install_cluster, KUSTOMIZE / "base", {}, _EVERYTHING))


def test_the_api_server_rejects_an_unknown_field(install_cluster: Cluster) -> None:
    """Show that the cases above can fail."""
    objects = render_overlay(install_cluster, "ha")
    (budget,) = (each for each in objects if each["kind"] == "PodDisruptionBudget")
    budget["spec"]["maxUnavailible"] = budget["spec"].pop("maxUnavailable")
    with pytest.raises(AssertionError, match="maxUnavailible"):
        _try_objects(install_cluster, objects)


@pytest.mark.parametrize("certificates", ["by-hand", "self-signed", "cert-manager"])
def test_helm_and_the_api_server_agree_on_the_chart(install_cluster: Cluster, certificates: str) -> None:
    """Let Helm ask the API server for its capabilities, and try every object."""
    extras = ",".join(f"{name}.enabled=true" for name in _EXTRAS)
    values = (f"--set={extras}", f"--set=certificates={certificates}", "--set=audit.enabled=true")
    output = run_helm(
        install_cluster, "install", "gate", str(CHART), f"--namespace={_OWN}", "--dry-run=server", *values
    )
    assert "kind: Deployment" in output
    (chart,) = output.split("MANIFEST:\n")[1:]
    manifest = chart.split("NOTES:\n")[0]
    _run_kubectl(install_cluster, "apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=manifest)


def test_the_api_server_accepts_the_values_for_pods_and_warns_of_the_network_of_the_node(
    install_cluster: Cluster, tmp_path: Path
) -> None:
    """Try the gate's Deployment with all of them, and nothing else that Pod Security's profile `restricted` rejects."""
    values = tmp_path / "values.json"
    values.write_text(json.dumps(_POD_VALUES))
    chart = ("gate", str(CHART), f"--namespace={_OWN}", f"--values={values}")
    manifest = run_helm(install_cluster, "template", *chart, "--show-only=templates/deployment.yaml")
    options = ("--dry-run=server", "--validate=strict", "--filename=-")
    done = install_cluster.kubectl("apply", *options, stdin=manifest)
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "last-applied-configuration" not in line]
    assert 'would violate PodSecurity "restricted' in warning
    rejected = [part for part in ("allowPrivilegeEscalation", "runAsNonRoot", "seccompProfile") if part in warning]
    assert (rejected, "host namespaces (hostNetwork=true)" in warning) == ([], True)


@pytest.mark.parametrize(
    ("page", "heading", "consoles"),
    [
        ("install.md", "3. Install", [2, 1]),
        ("installation.md", "Certificates by hand", [4, 2]),
        ("upgrade.md", "Upgrade", [3, 3, 1]),
        ("upgrade.md", "Uninstall", [1, 2]),
        ("runbook.md", "By what is seen", [3]),
    ],
)
def test_the_pages_show_the_commands_that_are_typed_where_nodes_run_the_gate(
    page: str, heading: str, consoles: list[int]
) -> None:
    """Report a change of a page also where there are no such nodes."""
    assert [len(each) for each in read_commands(page, heading)] == consoles


class _TypedShell(AdminShell):
    """A shell that keeps the commands and runs none."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, folder)
        self.commands: list[str] = []

    def run(self, command: str) -> str:
        self.commands.append(command)
        return ""


_ROLLED_OUT = ["kubectl apply -k", "kubectl -n tallygate-system"]


@pytest.mark.parametrize(
    ("method", "commands"),
    [
        (KustomizeInstall("ha", "monitoring"), [*_ROLLED_OUT, *_ROLLED_OUT, "kubectl delete -k"]),
        (
            KustomizeInstall("by-hand"),
            [
                "kubectl apply -f",
                "tallygate certs issue",
                "kubectl -n tallygate-system",
                *_ROLLED_OUT,
                "tallygate certs publish",
                *_ROLLED_OUT,
                "kubectl delete -k",
            ],
        ),
        (
            HelmInstall("standalone"),
            [
                "helm install tallygate",
                "helm upgrade tallygate",
                "helm uninstall tallygate",
                "kubectl delete namespace",
            ],
        ),
    ],
    ids=str,
)
def test_each_method_finds_its_commands_on_the_pages(
    install_cluster: Cluster, tmp_path: Path, method: InstallMethod, commands: list[str]
) -> None:
    """Report a section that was moved or renamed also where no node runs the gate."""
    shell = _TypedShell(install_cluster, tmp_path)
    method.install(shell, "registry.example.com/own/tallygate:1.2.3", "")
    method.upgrade(shell)
    method.uninstall(shell)
    assert [" ".join(each.split()[:3]) for each in shell.commands] == commands


def test_helm_lint_finds_nothing_in_the_chart(install_cluster: Cluster) -> None:
    assert "0 chart(s) failed" in run_helm(install_cluster, "lint", "--strict", str(CHART))
