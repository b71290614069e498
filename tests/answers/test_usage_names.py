"""The lines and notes of usage for someone who sees the names of one namespace: what is hidden is counted."""

from collections.abc import Sequence
from pathlib import Path

from tallygate.answers.usage_report import LedgerChoice, ShowsNames, UsageReport, compute_usage_of_caps, show_all_names
from tallygate.cluster.cluster_state import ClusterState
from tests.answers.asked_clusters import NOW, read_policies
from tests.cli.usage.clusters import GPU, Object, load_snapshot, namespace, pod
from tests.cli.usage.test_usage_of_devices import CLASS
from tests.cli.usage.test_usage_of_slices import CAP, create_claim

POLICIES = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: shared}
spec: {namespaces: {include: ["*"]}, shared: true, hard: {nvidia.com/gpu: 9}}
"""
DEVICE_POLICIES = CAP.replace('include: ["team-*"]', 'include: ["*"]').replace("hard:", "shared: true\n  hard:")


def compute(state: ClusterState, shows: ShowsNames, policies: str = POLICIES) -> UsageReport:
    """Return the report about team-a."""
    caps = state.index_caps(read_policies(policies), NOW)
    report, ledgers = compute_usage_of_caps(state, caps, LedgerChoice(namespace="team-a"), shows)
    assert [line for each in ledgers for line in each.lines] == list(report.lines)
    return report


def show_own_names(name: str) -> bool:
    return name == "team-a"


def load(folder: Path, objects: Sequence[Object]) -> ClusterState:
    """Return the state with two namespaces and these objects."""
    return load_snapshot(folder, [namespace("team-a"), namespace("secret"), *objects])


def test_pods_with_an_invalid_quantity_have_names_in_shown_namespaces(tmp_path: Path) -> None:
    pods = [pod("own", {GPU: "many"}), *(pod(f"hidden-{number}", {GPU: "x"}, "secret") for number in range(2))]
    state = load(tmp_path, pods)
    begin = "counted as 0 because of an invalid quantity: "
    (own,), (everything,) = compute(state, show_own_names).lines, compute(state, show_all_names).lines
    assert begin + "team-a/own and 2 pods of other namespaces" in own.remarks
    assert begin + "secret/hidden-0, secret/hidden-1, team-a/own" in everything.remarks


def test_claims_with_uncertain_devices_have_names_in_shown_namespaces(tmp_path: Path) -> None:
    hidden = create_claim("hidden", "gone-1")
    hidden["metadata"] |= {"namespace": "secret", "uid": "uid-hidden"}
    state = load(tmp_path, [CLASS, create_claim("own", "gone-0"), hidden, {"kind": "ResourceSliceList", "items": []}])
    own = [note for note in compute(state, show_own_names, DEVICE_POLICIES).notes if note.startswith("cap models")]
    assert len(own) == 2
    assert "team-a/own" in own[0]
    assert own[1] == "cap models: what devices of 1 claim of other namespaces count is not certain"
    notes = str(compute(state, show_all_names, DEVICE_POLICIES).notes)
    assert ("secret/hidden" in notes, "of other namespaces" in notes) == (True, False)
