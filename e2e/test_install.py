"""deploy/ on a real API server: every object of every overlay is taken, and the chart's are the same."""

import json
from collections.abc import Iterator

import pytest

from e2e.gates.process import GateProcess
from e2e.installation.foreign import foreign_kinds
from e2e.installation.pages import commands
from e2e.installation.rendered import CHART, KUSTOMIZE, OVERLAYS, Object, listed, overlay, own_overlay, run_helm
from e2e.installation.uninstalling import uninstall
from e2e.ports import Cluster, NotHereError, Site

_OWN = "tallygate-system"
_EVERYTHING = ("ha", "self-signed", "network", "flow-control", "monitoring", "dashboard", "audit", "token", "relay")


@pytest.fixture(scope="module")
def ground(site: Site) -> Iterator[Cluster]:
    """The cluster with the gate's namespace, without which nothing in it can be tried, and the kinds of others."""
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("an overlay is installed there, and kubectl warns of whatever it finds")
    uninstall(site.cluster)  # what other cases have left of it, which Helm would not take over
    with foreign_kinds(site.cluster):
        _done(site.cluster, "apply", f"--filename={KUSTOMIZE / 'base' / 'namespace.yaml'}")
        yield site.cluster


def _done(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    # No warning either, but for one of kubectl's about who applied the namespace before.
    assert [line for line in done.stderr.splitlines() if "last-applied-configuration" not in line] == []
    return done.stdout


def _tried(cluster: Cluster, objects: list[Object]) -> None:
    """Every object is taken in a dry run by the server, without a warning and with all of its fields known."""
    arguments = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-")
    said = _done(cluster, "apply", *arguments, stdin=listed(objects))
    assert len(said.splitlines()) == len(objects)


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_api_server_takes_every_object_of_an_overlay(ground: Cluster, name: str) -> None:
    _tried(ground, overlay(ground, name))


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_api_server_takes_every_object_of_an_overlay_with_a_relay(ground: Cluster, name: str) -> None:
    _tried(ground, own_overlay(ground, KUSTOMIZE / "overlays" / name, {}, ["relay"]))


def test_the_api_server_hands_its_token_to_the_gate_and_not_to_the_relay(ground: Cluster) -> None:
    """A pod of the Deployment, as it is after admission: Pod Security, priority, ServiceAccount."""
    objects = own_overlay(ground, KUSTOMIZE / "overlays" / "ha", {}, ["relay"])
    (account,) = (each for each in objects if each["kind"] == "ServiceAccount")
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    made = {**template, "apiVersion": "v1", "kind": "Pod"}
    made["metadata"] = {**template["metadata"], "name": "tried", "namespace": _OWN}
    _done(ground, "apply", "--filename=-", stdin=json.dumps(account))
    try:
        said = _done(ground, "create", "--dry-run=server", "--output=json", "--filename=-", stdin=json.dumps(made))
    finally:
        _done(ground, "delete", "serviceaccount", "tallygate", f"--namespace={_OWN}")
    admitted = json.loads(said)["spec"]
    secret = {volume["name"] for volume in admitted["volumes"] if "serviceAccountToken" in json.dumps(volume)}
    mounts = {each["name"]: {mount["name"] for mount in each["volumeMounts"]} for each in admitted["containers"]}
    assert len(secret) == 1
    assert secret <= mounts["tallygate"]
    assert mounts["relay"] == {"tls", "authority", "scratch", "no-token"}


def test_the_api_server_takes_everything_that_there_is(ground: Cluster) -> None:
    _tried(ground, own_overlay(ground, KUSTOMIZE / "base", {}, _EVERYTHING))


def test_the_api_server_does_not_take_what_it_does_not_know(ground: Cluster) -> None:
    """So that the cases above can fail."""
    objects = overlay(ground, "ha")
    (budget,) = (each for each in objects if each["kind"] == "PodDisruptionBudget")
    budget["spec"]["maxUnavailible"] = budget["spec"].pop("maxUnavailable")
    with pytest.raises(AssertionError, match="maxUnavailible"):
        _tried(ground, objects)


@pytest.mark.parametrize("certificates", ["by-hand", "self-signed", "cert-manager"])
def test_helm_and_the_api_server_agree_on_the_chart(ground: Cluster, certificates: str) -> None:
    """Helm asks the API server for what it knows, and lets it try every object."""
    extras = ",".join(f"{name}=true" for name in ("monitoring", "dashboard", "relay"))
    values = (f"--set={extras}", f"--set=certificates={certificates}", "--set=auditInterval=1h")
    said = run_helm(ground, "install", "gate", str(CHART), f"--namespace={_OWN}", "--dry-run=server", *values)
    assert "kind: Deployment" in said
    (chart,) = said.split("MANIFEST:\n")[1:]
    manifest = chart.split("NOTES:\n")[0]
    _done(ground, "apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=manifest)


@pytest.mark.parametrize(
    ("page", "heading", "consoles"),
    [
        ("install.md", "3. Install", [4]),
        ("install.md", "Certificates", [3, 2]),
        ("install.md", "By Helm", [3]),
        ("upgrade.md", "Upgrade", [3, 4, 1]),
        ("upgrade.md", "Uninstall", [5, 2]),
        ("operate.md", "By what is seen", [3]),
    ],
)
def test_the_pages_show_the_commands_that_are_typed_where_nodes_run_the_gate(
    page: str, heading: str, consoles: list[int]
) -> None:
    """So that who changes a page hears of it also where there are no such nodes."""
    assert [len(each) for each in commands(page, heading)] == consoles


def test_the_chart_has_nothing_that_helm_warns_of(ground: Cluster) -> None:
    assert "0 chart(s) failed" in run_helm(ground, "lint", "--strict", str(CHART))
