"""Claims for devices in `tallygate check`, charged to caps like the pods that would name the devices."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.cap_checks import CAP, check, claim, device_class, namespaces, pod


def test_claims_are_charged_like_pods(tmp_path: Path) -> None:
    """Take the classes of devices from the manifests or from the snapshot, in any order."""
    stored = [*namespaces(a="yes"), pod("running", 2), claim("stored", 3)]
    for manifests, snapshot in (
        ([claim("c", 2), claim("d", 2), device_class()], stored),
        ([claim("c", 2), claim("d", 2)], [*stored, device_class()]),
    ):
        (found,) = check(tmp_path, manifests, snapshot)
        assert found[:2] == ("error", "TG201")
        assert "requested 2 nvidia.com/gpu, used 5, reserved 2, hard 8, free 1" in found[2]


def test_a_claim_that_can_never_fit_is_an_error_without_a_snapshot(tmp_path: Path) -> None:
    manifests = [*namespaces(a="yes"), device_class(), claim("c", 9)]
    assert [each[:2] for each in check(tmp_path, manifests, None)] == [("error", "TG201")]


def test_a_stored_claim_is_not_charged_again(tmp_path: Path) -> None:
    stored = [*namespaces(a="yes"), device_class(), claim("c", 6)]
    assert check(tmp_path, [claim("c", 6), pod("p", 2)], stored) == []


def test_a_claim_of_the_scheduler_counts_as_its_pod(tmp_path: Path) -> None:
    """Recognise it by the status of the pod."""
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}
    named, other = pod("p", 4, status=status), pod("p", 4)
    for owner, findings in ((named, 0), (other, 1)):
        owner["metadata"]["uid"] = "u"
        stored = [*namespaces(a="yes"), device_class(), owner, claim("c", 4, owner="u")]
        assert len(check(tmp_path, [pod("q", 4)], stored)) == findings


@pytest.mark.parametrize("selection", ["", "  pods: {objectSelector: {matchLabels: {tier: batch}}}\n"])
def test_a_claim_of_the_scheduler_counts_by_itself_once_its_pod_has_ended(tmp_path: Path, selection: str) -> None:
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}, "phase": "Succeeded"}
    ended, stored_claim, requested = pod("p", 4, status=status), claim("c", 4, owner="u"), pod("q", 5)
    ended["metadata"]["uid"] = "u"
    for each in (ended, stored_claim, requested):
        each["metadata"]["labels"] = {"tier": "batch"}
    stored = [*namespaces(a="yes"), device_class(), ended, stored_claim]
    (found,) = check(tmp_path, [requested], stored, cap=CAP + selection)
    assert found[:2] == ("error", "TG201")


def test_a_claim_of_an_unknown_class_is_not_reported_as_fine(tmp_path: Path) -> None:
    """Report each class once."""
    manifests = [*namespaces(a="yes"), claim("c", 9), claim("d", 9)]
    (found,) = check(tmp_path, manifests, None)
    assert found[:2] == ("note", "TG408")
    assert found[2].startswith("claims of class gpu.example.com were not compared with the extended resources of caps")


def test_claims_of_a_snapshot_without_them_are_reported_as_missing(tmp_path: Path) -> None:
    for stored, note in (
        ([], "claims for devices are not counted: the snapshot has no resourceclaims"),
        ([claim("c", 1)], "only where a cap names its class: the snapshot has no deviceclasses"),
    ):
        check(tmp_path, [pod("p", 1)], [*namespaces(a="yes"), *stored])
        arguments = ["check", "--policies", str(tmp_path / "cap.yaml"), str(tmp_path / "all.json")]
        result = CliRunner().invoke(root, [*arguments, "--snapshot", str(tmp_path / "snapshot")])
        assert note in result.stderr


@pytest.mark.parametrize(("version", "finding"), [("v1beta1", ("warning", "TG410")), ("v1beta2", ("error", "TG201"))])
def test_an_older_version_of_a_claim_is_charged_or_reported(
    tmp_path: Path, version: str, finding: tuple[str, str]
) -> None:
    """Charge v1beta2, which has the fields of v1."""
    older = {**claim("c", 9), "apiVersion": f"resource.k8s.io/{version}"}
    assert [each[:2] for each in check(tmp_path, [*namespaces(a="yes"), device_class(), older], None)] == [finding]


def test_a_pod_that_names_an_unknown_class_is_not_reported_as_fine(tmp_path: Path) -> None:
    named = pod("p", 0)
    amounts = {"deviceclass.resource.kubernetes.io/future": "9"}
    named["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    (found,) = [each for each in check(tmp_path, [*namespaces(a="yes"), named], None) if "future" in each[2]]
    assert found[:2] == ("note", "TG408")
    assert found[2].startswith("pods that may get devices of class future were not compared with nvidia.com/gpu of cap")
