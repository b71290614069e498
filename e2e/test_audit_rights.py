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
from e2e.gates.process import GateProcess
from e2e.installation.rendered import KUSTOMIZE
from e2e.installation.rights import Asked, Right, asked, granted
from e2e.local.cluster import LocalCluster
from e2e.local.launches import audit_log
from e2e.ports import Cluster, NotHereError, Site
from e2e.report_definitions import OPENREPORTS, WGPOLICY, definitions
from e2e.said import said
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
    """One of the APIs: where its definitions are from, and what it has."""

    published: tuple[str, str]
    group: str
    version: str
    plural: str

    def files(self) -> list[str]:
        """Its definitions, as kubectl is told of them."""
        return [f"--filename={path}" for path in definitions(self.published)]

    def of_namespace(self, namespace: str) -> str:
        """The path of the gate's report on a namespace."""
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}/tallygate"

    @property
    def of_cluster(self) -> str:
        """The path of the one on the cluster."""
        return f"/apis/{self.group}/{self.version}/cluster{self.plural}/tallygate"


_OLDER = _Reports(WGPOLICY, "wgpolicyk8s.io", "v1alpha2", "policyreports")
_NEWER = _Reports(OPENREPORTS, "openreports.io", "v1alpha1", "reports")


class _Log:
    """What the gate's account has asked for, from now on."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._path = audit_log(cluster.folder)
        self._start = self._path.stat().st_size if self._path.exists() else 0

    def asked(self) -> list[Asked]:
        return list(asked(self._path, self._start))

    def has_all_of(self, group: str) -> bool:
        """Whether every right to this group that the component gives was asked for."""
        return all(each.group != group for each in self._unused())

    def unused(self) -> str:
        """What the component gives and nobody has asked for, a right a line."""
        return "\n".join(map(" ".join, self._unused()))

    def _unused(self) -> list[Right]:
        return sorted(_given("audit") - {each.right for each in self.asked()})


@pytest.fixture
def local(site: Site) -> LocalCluster:
    """A cluster without definitions of reports, whose audit log can be read."""
    cluster = site.cluster
    if not isinstance(site.gate, GateProcess) or not isinstance(cluster, LocalCluster):
        raise NotHereError("it takes a control plane whose audit log can be read, and a gate of its own")
    for each in (_OLDER, _NEWER):
        _remove(cluster, each)  # what a case has left that was broken off
    return cluster


@pytest.fixture
def auditing(local: LocalCluster, tmp_path: Path) -> Iterator[GateProcess]:
    """A gate with the rights of its components, which audits all the time; it does not run yet, and nobody asks it."""
    account = gates_account(local, tmp_path, *_COMPONENTS)
    gate = GateProcess(
        tmp_path / "gate", arguments=("--cluster=kubeconfig", f"--kubeconfig={account}", "--audit-interval=1s")
    )
    gate.write_policies({"keys.yaml": _RULE})
    yield gate
    gate.stop()


@pytest.fixture
def machine(local: LocalCluster) -> Iterator[str]:
    """The name of a node that is not there yet, and is not there afterwards."""
    name = f"machine-{uuid4().hex[:8]}"
    yield name
    api(local.kubeconfig).delete(f"{_NODES}/{name}")


def test_on_the_older_api_of_reports_and_on_the_newer_every_right_is_used_and_none_is_lacking(
    local: LocalCluster, auditing: GateProcess, namespace: str, machine: str
) -> None:
    log = _Log(local)
    auditing.start()
    for reports in (_OLDER, _NEWER):
        with _installed(local, reports):
            _written_changed_and_removed(local, reports, namespace, machine, auditing)
            until(
                f"every right of {reports.group} is used", partial(log.has_all_of, reports.group), _WITHIN, log.unused
            )
            assert _groups(local) == {reports.group}
    used = log.asked()
    assert log.unused() == ""
    assert [each for each in used if each.is_forbidden] == []
    assert sorted({each.right for each in used} - _given(*_COMPONENTS)) == []
    assert "forbidden" not in auditing.log().lower()


def _written_changed_and_removed(
    cluster: Cluster, reports: _Reports, namespace: str, machine: str, gate: GateProcess
) -> None:
    """The report of a namespace and that of the cluster, as what is wrong there comes, changes and goes."""
    ours = api(cluster.kubeconfig)
    paths = (reports.of_namespace(namespace), reports.of_cluster)

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
    """A node that takes no pods of other cases."""
    has = {"cpu": "1", "memory": "1Gi", "pods": "1", _KEY: keys}
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": True},
        "status": {"capacity": has, "allocatable": has},
    }


@contextmanager
def _installed(cluster: Cluster, reports: _Reports) -> Iterator[None]:
    """Its definitions are there, and its alone, for as long as the block runs."""
    said(cluster, "apply", "--server-side", *reports.files())
    try:
        said(cluster, "wait", "--for=condition=Established", f"--timeout={_WITHIN:.0f}s", *reports.files())
        yield
    finally:
        _remove(cluster, reports)


def _remove(cluster: Cluster, reports: _Reports) -> None:
    """Take away the definitions, with all reports, and wait until they have gone."""
    said(cluster, "delete", "--ignore-not-found", f"--timeout={_WITHIN:.0f}s", *reports.files())


def _groups(cluster: Cluster) -> set[str]:
    """The groups of reports that have a definition."""
    defined = {each["spec"]["group"] for each in api(cluster.kubeconfig).items(_DEFINITIONS)}
    return defined & {_OLDER.group, _NEWER.group}


def _given(*components: str) -> frozenset[Right]:
    """Every right that the roles of these components give."""
    files = (KUSTOMIZE / "components" / each / "rbac.yaml" for each in components)
    return granted(made for file in files for made in yaml.safe_load_all(file.read_text()))
