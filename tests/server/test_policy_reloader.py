"""The log, readiness and metrics of active policies when the reader crashes, and the decisions on ConfigMaps."""

import json
from pathlib import Path

import pytest

from tallygate.admission.request import UPDATE, AdmissionRequest, Phase
from tallygate.policy import load
from tallygate.server.policy_reloader import PolicyReloader
from tallygate.server.telemetry.metrics import ServerMetrics, Telemetry
from tests.policy.files import mount_config_map
from tests.server.app_harness import Log

POLICY = """apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: dongles}
spec: {resources: [example.com/dongle]}
"""


class _Harness:
    """A reloader of one policy file, its log and its metrics."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "dongles.yaml"
        self.file.write_text(POLICY)
        self.log = Log()
        self.metrics = ServerMetrics("1.2.3")
        self.reloader = PolicyReloader([folder], Telemetry(self.log.logger, self.metrics))

    def crash(self) -> None:
        """Write another valid file on which the reader crashes by a patch; no real file is known to do so."""

        def crash(_: object) -> None:
            raise IndexError("a fault of ours")

        self.file.write_text(POLICY.replace("name: dongles", "name: renamed"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(load, "lint_policies", crash)
            self.reloader.store.reload()

    def count(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def harness(tmp_path: Path) -> _Harness:
    return _Harness(tmp_path)


def test_a_crash_of_the_reader_is_logged_with_its_traceback_and_counted(harness: _Harness) -> None:
    digest = harness.reloader.store.get_status().digest
    harness.crash()
    line = harness.log.lines[-1]
    assert (line["level"], line["event"], line["active_digest"]) == ("error", "policies-crashed", digest)
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert line["exception"].endswith("IndexError: a fault of ours")
    assert harness.count("tallygate_policy_broken") == 1


def test_the_check_reports_a_crash_of_the_reader_and_stays_ready(harness: _Harness) -> None:
    harness.crash()
    check = harness.reloader.check()
    assert check.ready
    assert (check.detail["crash"], check.detail["generation"]) == ("IndexError: a fault of ours", 1)


def test_a_crash_ends_when_the_files_can_be_read(harness: _Harness) -> None:
    harness.crash()
    harness.reloader.store.reload()
    assert "crash" not in harness.reloader.check().detail
    assert harness.log.lines[-1]["event"] == "policies-loaded"
    assert harness.count("tallygate_policy_broken") == 0


_CAP = """---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["team-*"]}, hard: {nvidia.com/gpu: 4}}
"""
_CHANGES: dict[str, tuple[str, str, dict[str, list[str]], list[str]]] = {
    "a cap is added": (POLICY, POLICY + _CAP, {"added": ["cap gpus"]}, []),
    "a limit is changed": (POLICY + _CAP, POLICY + _CAP.replace("4", "8"), {"changed": ["cap gpus"]}, []),
    "a comment and lines are added": (POLICY + _CAP, "# why\n" + POLICY + "\n" + _CAP, {}, []),
    "a rule is renamed": (
        POLICY + _CAP,
        POLICY.replace("dongles", "renamed") + _CAP,
        {"added": ["rule renamed"], "removed": ["rule dongles"]},
        [],
    ),
    "a cap is removed": (POLICY + _CAP, POLICY, {"removed": ["cap gpus"]}, ["gpus"]),
}


@pytest.mark.parametrize("case", _CHANGES)
def test_a_new_set_is_logged_with_its_changes_and_with_each_cap_that_it_lacks(case: str, tmp_path: Path) -> None:
    before, after, changes, removed_caps = _CHANGES[case]
    harness = _Harness(tmp_path)
    harness.file.write_text(before)
    harness.reloader.store.reload()
    known = len(harness.log.lines)
    harness.file.write_text(after)
    harness.reloader.store.reload()
    loaded, *others = harness.log.lines[known:]
    assert (loaded["event"], loaded["level"]) == ("policies-loaded", "info")
    assert {name: loaded[name] for name in ("added", "changed", "removed") if name in loaded} == changes
    assert [(each["event"], each["level"], each["cap"]) for each in others] == [
        ("cap-removed", "warning", cap) for cap in removed_caps
    ]


def test_a_config_map_is_linted_beside_the_files_of_other_volumes(tmp_path: Path) -> None:
    """Mount two ConfigMaps as the kubelet does, and give the first one a name that the second has."""
    folders = [tmp_path / "first", tmp_path / "second"]
    texts = [{"dongles.yaml": POLICY}, {"seats.yaml": POLICY.replace("dongle", "seat")}]
    for folder, files in zip(folders, texts, strict=True):
        folder.mkdir()
        mount_config_map(folder, "one", files)
    reviews = PolicyReloader(folders, Telemetry(Log().logger, ServerMetrics("1.2.3"))).create_reviews()

    def create_config_map(text: str) -> bytes:
        metadata = {"name": "first", "labels": {"tallygate.dev/policies": "true"}}
        return json.dumps({"metadata": metadata, "data": {"dongles.yaml": text}}).encode()

    stored = create_config_map(POLICY)
    for text, verdict in (
        (POLICY.replace("dongles", "others"), "allow"),
        (POLICY.replace("dongles", "seats"), "deny"),
    ):
        request = AdmissionRequest("ConfigMap", UPDATE, create_config_map(text), stored, name="first", uid="u")
        record = reviews.decide(request, Phase.VALIDATING).record
        assert record.verdict == verdict
        assert verdict == "allow" or f'there is another ResourceRule named "seats" at {folders[1]}' in record.message
