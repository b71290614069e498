"""Policies in a ConfigMap on a real control plane: they are linted when they are applied, and never in the way."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import api
from e2e.gates.process import GateProcess
from e2e.namespaces import gates_namespace
from e2e.ports import Site
from e2e.self_registration import run_registering_gate
from tests.policy.files import rule_text

_NAME = "case-policies"
_GOOD, _OTHER = rule_text("gpus"), rule_text("licences")
_BROKEN = _GOOD.replace("spec: {", "spec: {checks: {wholeQuantety: true}, ")
_ENDED = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: seats}
spec:
  namespaces: {include: [team-a]}
  hard: {example.com/seat: 4}
  overrides: [{until: 2025-12-01T00:00:00Z, hard: {example.com/seat: 6}}]
"""


@pytest.fixture
def gate(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate that has registered itself, and delete the ConfigMap of the case."""
    with run_registering_gate(site, tmp_path, {"gpus.yaml": _GOOD}) as gate:
        yield gate
        api(site.cluster.kubeconfig).delete(f"/api/v1/namespaces/{gates_namespace(site.cluster)}/configmaps/{_NAME}")


def _apply(site: Site, *options: str, label: str = "true", namespace: str = "", **texts: str) -> str:
    """Apply a ConfigMap with these texts, and return what kubectl prints; `_` in a name stands for the dot."""
    metadata = {
        "name": _NAME,
        "namespace": namespace or gates_namespace(site.cluster),
        "labels": {"tallygate.dev/policies": label},
    }
    data = {name.replace("_", "."): text for name, text in texts.items()}
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    done = site.cluster.kubectl("apply", "--filename=-", *options, stdin=json.dumps(content))
    return done.stdout + done.stderr


def test_a_broken_config_map_is_refused_with_file_and_line_and_a_valid_one_is_loaded(
    site: Site, gate: GateProcess, namespace: str
) -> None:
    assert "created" in _apply(site, gpus_yaml=_GOOD)
    for options in ((), ("--dry-run=server",), ("--server-side", "--force-conflicts")):
        refused = _apply(site, *options, gpus_yaml=_BROKEN)
        assert "gpus.yaml:4:17: spec.checks.wholeQuantety: there is no such field here" in refused
        assert 'did you mean "wholeQuantity"? (TG307)' in refused
        assert "until then: gates keep the policies that they have" in refused
    mended = _apply(site, gpus_yaml=_ENDED, more_yaml=_OTHER)
    assert "configured" in mended
    assert f'Warning: ConfigMap "{_NAME}": gpus.yaml:8:' in mended
    gate.write_policies({"gpus.yaml": _ENDED, "more.yaml": _OTHER})  # as the kubelet does
    assert gate.readiness()["checks"]["policies"]["rules"] == 1
    assert "TG316" in _apply(site, gpus_yaml=_ENDED, more_yaml=_ENDED)
    assert "created" in _apply(site, namespace=namespace, gpus_yaml=_BROKEN)  # not of the gate
    assert "configured" in _apply(site, label="false", gpus_yaml=_BROKEN)  # not for a gate


def test_while_no_gate_answers_every_config_map_is_accepted(site: Site, gate: GateProcess) -> None:
    gate.kill()
    assert "created" in _apply(site, gpus_yaml=_BROKEN)
    gate.start()
    assert "configured" in _apply(site, gpus_yaml=_GOOD)


def test_policy_files_themselves_are_no_objects_of_the_cluster(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text(_GOOD)
    done = site.cluster.kubectl("apply", f"--filename={file}")
    assert 'no matches for kind "ResourceRule" in version "tallygate.dev/v1alpha1"' in done.stderr
