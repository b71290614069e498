"""A gate that audits, with the rights of its own ServiceAccount and nothing more, on each of the two APIs of reports.

The one gate meets both, one after the other, so that every right that the component `audit` gives is used in one run.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
import yaml

from e2e.api import Object, api
from e2e.command_output import run_kubectl
from e2e.definitions import apply_definitions
from e2e.gates.process import GateProcess
from e2e.installation.rendered import KUSTOMIZE
from e2e.installation.rights import AuditedRequest, Right, collect_rights, read_requests
from e2e.local.cluster import LocalCluster
from e2e.local.launches import audit_log
from e2e.ports import Cluster, NotHereError, Site
from e2e.report_definitions import OPENREPORTS, WGPOLICY, definitions
from e2e.service_account import gates_account
from e2e.waiting import until

_COMPONENTS = ("cluster-access", "audit")
_WITHIN = 240.0  # seconds
_NODES = "/api/v1/nodes"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KEY = "notkubernetes.io/key"  # of which an API server stores any fraction
_RULE = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: whole-keys}}
spec: {{resources: [{_KEY}], checks: {{wholeQuantity: true}}}}
"""
"""Of something that nothing else in the cluster has: what other cases have left is not found, and no report of it."""


class _Reports(NamedTuple):
    """One of the APIs: the source of its definitions, and their names."""

    published: tuple[str, str]
    group: str
    version: str
    plural: str

    def files(self) -> list[str]:
        """Return its definitions, as arguments of kubectl."""
        return [f"--filename={path}" for path in definitions(self.published)]

    def get_namespace_path(self, namespace: str) -> str:
        """Return the path of the gate's report on a namespace."""
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}/tallygate"

    @property
    def cluster_path(self) -> str:
        """The path of the gate's report on the cluster."""
        return f"/apis/{self.group}/{self.version}/cluster{self.plural}/tallygate"


_OLDER = _Reports(WGPOLICY, "wgpolicyk8s.io", "v1alpha2", "policyreports")
_NEWER = _Reports(OPENREPORTS, "openreports.io", "v1alpha1", "reports")


class _Log:
    """The requests of the gate's account, from now on."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._path = audit_log(cluster.folder)
        self._start = self._path.stat().st_size if self._path.exists() else 0

    def read_requests(self) -> list[AuditedRequest]:
        return list(read_requests(self._path, self._start))

    def has_all_of(self, group: str) -> bool:
        """Return whether every right to this group of the component was used."""
        return all(each.group != group for each in self._find_unused())

    def format_unused(self) -> str:
        """Return the rights of the component that were not used, a right a line."""
        return "\n".join(map(" ".join, self._find_unused()))

    def _find_unused(self) -> list[Right]:
        return sorted(_collect_component_rights("audit") - {each.right for each in self.read_requests()})


@pytest.fixture
def local(site: Site) -> LocalCluster:
    """Return a cluster without definitions of reports, whose audit log can be read."""
    cluster = site.cluster
    if not isinstance(site.gate, GateProcess) or not isinstance(cluster, LocalCluster):
        raise NotHereError("it takes a control plane whose audit log can be read, and a gate of its own")
    for each in (_OLDER, _NEWER):
        _remove(cluster, each)  # leftovers of a case that broke off
    return cluster


@pytest.fixture
def auditing(local: LocalCluster, tmp_path: Path) -> Iterator[GateProcess]:
    """Prepare a gate with the rights of its components, which audits all the time and is not registered."""
    account = gates_account(local, tmp_path, *_COMPONENTS)
    gate = GateProcess(
        tmp_path / "gate", arguments=("--cluster=kubeconfig", f"--kubeconfig={account}", "--audit-interval=1s")
    )
    gate.write_policies({"keys.yaml": _RULE})
    yield gate
    gate.stop()


@pytest.fixture
def machine(local: LocalCluster) -> Iterator[str]:
    """Yield the name of a node that does not exist yet; delete it afterwards."""
    name = f"machine-{uuid4().hex[:8]}"
    yield name
    api(local.kubeconfig).delete(f"{_NODES}/{name}")


def test_on_the_older_and_the_newer_api_of_reports_every_right_is_used_and_none_is_missing(
    local: LocalCluster, auditing: GateProcess, namespace: str, machine: str
) -> None:
    log = _Log(local)
    auditing.start()
    for reports in (_OLDER, _NEWER):
        with _install_definitions(local, reports):
            _write_change_and_remove(local, reports, namespace, machine, auditing)
            until(
                f"every right of {reports.group} is used",
                partial(log.has_all_of, reports.group),
                _WITHIN,
                log.format_unused,
            )
            assert _groups(local) == {reports.group}
    used = log.read_requests()
    assert log.format_unused() == ""
    assert [each for each in used if each.is_forbidden] == []
    assert sorted({each.right for each in used} - _collect_component_rights(*_COMPONENTS)) == []
    assert "forbidden" not in auditing.log().lower()


def _write_change_and_remove(
    cluster: Cluster, reports: _Reports, namespace: str, machine: str, gate: GateProcess
) -> None:
    """Check the reports of a namespace and of the cluster while their problems come, change and end."""
    ours = api(cluster.kubeconfig)
    paths = (reports.get_namespace_path(namespace), reports.cluster_path)

    def say(text: str) -> bool:
        return all(text in json.dumps(ours.find(path)) for path in paths)

    templates = f"/api/v1/namespaces/{namespace}/podtemplates"
    ours.create(templates, _template("1500m"))
    ours.create(_NODES, _node(machine, "1500m"))
    until(f"{reports.group} has both", partial(say, "1500m"), _WITHIN, gate.log)
    ours.patch(f"{templates}/keys", _template("2500m"))
    ours.patch(f"{_NODES}/{machine}/status", {"status": _node(machine, "2500m")["status"]})
    until(f"{reports.group} has both as they are now", partial(say, "2500m"), _WITHIN, gate.log)
    ours.delete(f"{templates}/keys")
    ours.delete(f"{_NODES}/{machine}")
    until(f"{reports.group} has neither", lambda: all(ours.find(path) is None for path in paths), _WITHIN, gate.log)


def _template(keys: str) -> Object:
    asks = {"requests": {_KEY: keys}, "limits": {_KEY: keys}}
    container = {"name": "main", "image": "example.com/none:1", "resources": asks}
    return {"metadata": {"name": "keys"}, "template": {"spec": {"containers": [container]}}}


def _node(name: str, keys: str) -> Object:
    """Return a node that takes no pods of other cases."""
    has = {"cpu": "1", "memory": "1Gi", "pods": "1", _KEY: keys}
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": True},
        "status": {"capacity": has, "allocatable": has},
    }


@contextmanager
def _install_definitions(cluster: Cluster, reports: _Reports) -> Iterator[None]:
    """Install these definitions, and no others, for as long as the block runs."""
    try:
        apply_definitions(cluster, definitions(reports.published), "--server-side")
        yield
    finally:
        _remove(cluster, reports)


def _remove(cluster: Cluster, reports: _Reports) -> None:
    """Delete the definitions, with all reports, and wait until they are deleted."""
    run_kubectl(cluster, "delete", "--ignore-not-found", f"--timeout={_WITHIN:.0f}s", *reports.files())


def _groups(cluster: Cluster) -> set[str]:
    """Return the groups of reports that have a definition."""
    defined = {each["spec"]["group"] for each in api(cluster.kubeconfig).items(_DEFINITIONS)}
    return defined & {_OLDER.group, _NEWER.group}


def _collect_component_rights(*components: str) -> frozenset[Right]:
    """Every right that the roles of these components give."""
    files = (KUSTOMIZE / "components" / each / "rbac.yaml" for each in components)
    return collect_rights(made for file in files for made in yaml.safe_load_all(file.read_text()))
