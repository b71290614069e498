"""Limits by an annotation on a real control plane: admins set them, tenants who may edit the namespace do not."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.api import MERGE, Answer, api
from e2e.command_output import run_tallygate
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.namespaces import gates_namespace, label, new_namespace
from e2e.pods import DONGLE, list_stored, submit_decided
from e2e.ports import Site
from e2e.waiting import until

_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: annotated}}
spec:
  namespaces: {{include: ["case-*"]}}
  hard: {{{DONGLE}: 2}}
  overrideAnnotation: {{setBy: {{groups: [platform-admins]}}, most: {{{DONGLE}: 4}}}}
"""
_KEY = "limits.tallygate.dev/annotated"
_LONG, _SHORT = timedelta(minutes=10), timedelta(seconds=6)
"""How long the raise lasts: until it was seen, then until its end."""
_WITHIN = 60.0  # seconds
_FORBIDDEN, _STORED, _NOT_DECIDED = 403, 201, 500
_TENANT = ("--as=tom", "--as-group=system:masters")
"""A user with every right on namespaces, who is no admin for the cap."""
_ADMIN = ("--as=ann", "--as-group=system:masters", "--as-group=platform-admins")


@pytest.fixture
def ledger_gate(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate on this machine that watches the cluster with its ledgers there, registered."""
    with (
        new_namespace(site.cluster, "gate-") as own,
        run_ledger_gate(site, tmp_path / "g", {"annotated.yaml": _CAP}, own) as gate,
    ):
        yield gate


def _annotate(site: Site, namespace: str, text: str | None, user: tuple[str, ...]) -> str:
    """Change the annotation as kubectl does, and return the error, empty without one."""
    change = f"{_KEY}-" if text is None else f"{_KEY}={text}"
    done = site.cluster.kubectl("annotate", "--overwrite", "namespace", namespace, change, *user)
    return done.stderr if done.returncode else ""


def _raise(lasts: timedelta) -> str:
    return f"{DONGLE}=3 until={datetime.now(UTC) + lasts:%Y-%m-%dT%H:%M:%SZ}"


def _write_status(site: Site, namespace: str, text: str) -> Answer:
    """Set the annotation by the subresource for the status."""
    headers = {"Impersonate-User": "tom", "Impersonate-Group": "system:masters"}
    path = f"/api/v1/namespaces/{namespace}/status"
    patch = {"metadata": {"annotations": {_KEY: text}}}
    return api(site.cluster.kubeconfig).ask("PATCH", path, patch, kind=MERGE, headers=headers)


@pytest.mark.usefixtures("ledger_gate")
def test_an_admin_raises_a_cap_by_an_annotation_until_its_end_and_a_tenant_does_not(site: Site, namespace: str) -> None:
    assert [submit_decided(site, namespace, name).status for name in ("one", "two")] == [_STORED, _STORED]
    assert submit_decided(site, namespace, "three").status == _FORBIDDEN
    refused = _annotate(site, namespace, f"{DONGLE}=3", _TENANT)
    assert "tom may not add, change or remove it: only the groups platform-admins may (TG216" in refused
    assert "TG216" in _write_status(site, namespace, f"{DONGLE}=3").rejection
    assert "5 is more than an annotation may give; write 4 or less" in _annotate(site, namespace, f"{DONGLE}=5", _ADMIN)
    assert not _annotate(site, namespace, _raise(_LONG), _ADMIN)
    until("the raise is active", lambda: submit_decided(site, namespace, "three").status == _STORED, _WITHIN)
    assert "TG216" in _annotate(site, namespace, None, _TENANT)
    label(site.cluster, namespace, {"of": "anyone"})
    fourth = submit_decided(site, namespace, "four")
    assert "hard 3 (until " in fourth.rejection
    assert not _annotate(site, namespace, _raise(_SHORT), _ADMIN)
    until("the end", lambda: "hard 2 (was 3 until " in submit_decided(site, namespace, "five").rejection, _WITHIN)
    assert list_stored(site, namespace) == {"one", "two", "three"}
    assert not _annotate(site, namespace, None, _ADMIN)


@pytest.mark.usefixtures("ledger_gate")
def test_doctor_finds_an_annotation_that_a_policy_does_not_allow_any_more(
    site: Site, namespace: str, tmp_path: Path
) -> None:
    assert not _annotate(site, namespace, f"{DONGLE}=4", _ADMIN)
    allowed, found = _diagnose(site, tmp_path, _CAP), _diagnose(site, tmp_path, _CAP.replace(": 4}}", ": 3}}"))
    assert "sets no limit" not in allowed["reason"]
    assert found["result"] == "WARN"
    assert f"the annotation {_KEY} of namespace {namespace} sets no limit: {DONGLE}: 4 is more" in found["reason"]
    (command,) = [each for each in found["fix"] if namespace in each]
    assert command.endswith(f"annotate namespace {namespace} {_KEY}-")


def test_an_annotation_that_no_gate_admitted_is_named_by_doctor_and_audit(
    site: Site, namespace: str, tmp_path: Path
) -> None:
    """Set it before a gate is registered; then a user whom the cap names sets it."""
    assert not _annotate(site, namespace, f"{DONGLE}=4", _TENANT)
    own = gates_namespace(site.cluster)
    with run_ledger_gate(site, tmp_path / "g", {"annotated.yaml": _CAP}, own):
        unadmitted = f"the annotation {_KEY} of namespace {namespace} sets limits, and no gate has recorded that it"
        assert unadmitted in _diagnose(site, tmp_path, _CAP)["reason"]
        assert unadmitted in _audit(site, tmp_path, namespace)
        assert "TG216" in _annotate(site, namespace, f"{DONGLE}=3", _TENANT)
        assert not _annotate(site, namespace, f"{DONGLE}=3", _ADMIN)
        until("it is recorded", lambda: namespace not in _diagnose(site, tmp_path, _CAP)["reason"], _WITHIN)
        assert namespace not in _audit(site, tmp_path, namespace)
        assert not _annotate(site, namespace, None, _ADMIN)
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases/tallygate-limits.{namespace}"
        until("its record is deleted", lambda: api(site.cluster.kubeconfig).find(leases) is None, _WITHIN)


def _audit(site: Site, folder: Path, namespace: str) -> str:
    """Return the remarks of an audit with the cap."""
    (folder / "given.yaml").write_text(_CAP)
    options = ("-o", "json", "-n", namespace, "--policies", str(folder / "given.yaml"))
    where = ("--kubeconfig", str(site.cluster.kubeconfig))
    return "\n".join(json.loads(run_tallygate(site.cluster, "audit", *options, *where).stdout)["summary"]["remarks"])


def _diagnose(site: Site, folder: Path, policies: str) -> dict[str, Any]:
    """Return the result of the check with these policies."""
    (folder / "given.yaml").write_text(policies)
    options = ("-o", "json", "--policies", str(folder / "given.yaml"), "--kubeconfig", str(site.cluster.kubeconfig))
    checks = json.loads(run_tallygate(site.cluster, "doctor", *options).stdout)["checks"]
    return next(each for each in checks if each["check"] == "limit-annotations")


def test_while_no_gate_answers_no_user_changes_the_annotation_and_all_else_of_a_namespace_can_be_changed(
    site: Site, namespace: str, ledger_gate: GateProcess
) -> None:
    assert not _annotate(site, namespace, f"{DONGLE}=3", _ADMIN)
    ledger_gate.stop()
    for text, user in itertools.product((f"{DONGLE}=4", None), (_TENANT, _ADMIN)):
        refused = _annotate(site, namespace, text, user)
        assert 'failed calling webhook "limits.validate.tallygate.dev"' in refused
    assert _write_status(site, namespace, f"{DONGLE}=4").status == _NOT_DECIDED
    created = {"metadata": {"name": "case-with-a-limit", "annotations": {_KEY: f"{DONGLE}=4"}}}
    client = api(site.cluster.kubeconfig)
    assert client.ask("POST", "/api/v1/namespaces", created, query={"dryRun": "All"}).status == _NOT_DECIDED
    label(site.cluster, namespace, {"of": "anyone"})
    assert not site.cluster.kubectl("annotate", "namespace", namespace, "note=1").returncode
    client.patch(f"/api/v1/namespaces/{namespace}/status", {"metadata": {"annotations": {"note": "2"}}})
    with new_namespace(site.cluster, "case-other-"):
        pass
    ledger_gate.start()
    assert _annotate(site, namespace, f"{DONGLE}=4", _TENANT).count("TG216") == 1
    assert not _annotate(site, namespace, None, _ADMIN)


@pytest.mark.usefixtures("ledger_gate")
def test_no_namespace_is_created_with_the_annotation_of_a_tenant(site: Site) -> None:
    headers = {"Impersonate-User": "tom", "Impersonate-Group": "system:masters"}
    body = {"metadata": {"name": "case-with-a-limit", "annotations": {_KEY: f"{DONGLE}=3"}}}
    answer = api(site.cluster.kubeconfig).ask(
        "POST", "/api/v1/namespaces", body, query={"dryRun": "All"}, headers=headers
    )
    assert "tom may not add, change or remove it" in answer.rejection
    unread = {"metadata": {"name": "case-with-a-limit", "annotations": {f"{_KEY}s": f"{DONGLE}=3"}}}
    answer = api(site.cluster.kubeconfig).ask("POST", "/api/v1/namespaces", unread, query={"dryRun": "All"})
    assert 'no cap of the name annotateds reads it; did you mean "annotated"?' in answer.rejection
