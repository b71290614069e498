"""Compiled rules on a real API server without a gate: it accepts every expression, and denies what the gate would."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.api import Answer, Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.pods import DONGLE, make_deployment, pod
from e2e.ports import Cluster, Site
from e2e.waiting import until
from tallygate.policy.model import COMPILED_FROM_LABEL

_POLICIES = Path(__file__).parents[1] / "policies"
_FILES = sorted([_POLICIES / "default.yaml", *(_POLICIES / "examples").glob("*.yaml")])
_PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_KINDS = "validatingadmissionpolicybindings,validatingadmissionpolicies"
_RULES = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: pairs}}
spec:
  resources: [{DONGLE}]
  match: {{namespaces: {{include: [%s]}}}}
  checks: {{perContainer: {{oneOf: [2, 4]}}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: few}}
spec:
  resources: [{DONGLE}]
  match: {{namespaces: {{include: [%s]}}}}
  enforcement: warn
  checks: {{perPod: {{max: 3}}}}
"""
_WITHIN = 120.0  # seconds


@contextmanager
def _apply(cluster: Cluster, policies: Path) -> Iterator[list[str]]:
    """Apply the objects that are compiled from the rules of a file, and return the names of the policies."""
    done = run_tallygate(cluster, "compile", str(policies))
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each and "Admission" in each["kind"]]
    if objects:
        run_kubectl(cluster, "apply", "--filename=-", stdin=yaml.safe_dump_all(objects))
    try:
        yield [each["metadata"]["name"] for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
    finally:
        run_kubectl(cluster, "delete", _KINDS, f"--selector={COMPILED_FROM_LABEL}", "--ignore-not-found")


def _read_status(cluster: Cluster, name: str) -> Object:
    stored = api(cluster.kubeconfig).get(f"{_PATH}/{name}")
    status: Object = stored.get("status") or {}
    return status if status.get("observedGeneration") == stored["metadata"]["generation"] else {}


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_an_api_server_finds_no_mistake_in_the_types_of_an_expression(site: Site, file: Path) -> None:
    with _apply(site.cluster, file) as names:
        for name in names:
            status = partial(_read_status, site.cluster, name)
            until("its types are checked", lambda: bool(status()), _WITHIN)  # noqa: B023  # called at once
            assert _read_status(site.cluster, name).get("typeChecking", {}).get("expressionWarnings", []) == []


def test_pods_and_templates_are_denied_or_warned_of_with_the_sentences_of_the_gate(
    site: Site, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(_RULES % (namespace, namespace))
    ask = partial(api(site.cluster.kubeconfig).ask, "POST", query={"dryRun": "All"})
    pods, deployments = f"/api/v1/namespaces/{namespace}/pods", f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def create(amount: str) -> Answer:
        return ask(pods, pod(site, "p", amount))

    with _apply(site.cluster, file):
        checked = run_tallygate(site.cluster, "compile", str(file), "--check")
        assert checked.returncode == 0, checked.stdout
        until("the rule is evaluated", lambda: "rule pairs" in create("3").messages, _WITHIN)
        until("the other one is", lambda: "rule few" in create("4").messages, _WITHIN)
        denied, warned, fine = create("3"), create("4"), create("2")
        assert (denied.is_done, warned.is_done, fine.is_done) == (False, True, True)
        assert f"3 is not an allowed amount of {DONGLE}: request one of 2, 4 (TG107, rule pairs)" in denied.messages
        assert "more than the 3 that one pod may have (TG108, rule few)" in warned.messages
        assert fine.messages == ""
        template = ask(deployments, make_deployment("web", 1, pod(site, "p", "3")["spec"]))
        assert "(TG107, rule pairs)" in template.rejection
        assert ask(deployments, make_deployment("web", 1, pod(site, "p", "2")["spec"])).is_done
