"""The policies in force as those who run the server see them, when tallygate itself is at fault."""

from pathlib import Path

import pytest

from tests.server.building import Log
from webhook.policy import load
from webhook.server.policy_reloader import PolicyReloader
from webhook.server.telemetry.metrics import ServerMetrics, Telemetry

POLICY = """apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: dongles}
spec: {resources: [example.com/dongle]}
"""


class _Scene:
    """Live policies of one file, and what they say."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "dongles.yaml"
        self.file.write_text(POLICY)
        self.log = Log()
        self.metrics = ServerMetrics("1.2.3")
        self.live = PolicyReloader([folder], Telemetry(self.log.logger, self.metrics))

    def crash(self) -> None:
        """Write another good set, over which the reader crashes; no file is known that makes it."""

        def crash(_: object) -> None:
            raise IndexError("a fault of ours")

        self.file.write_text(POLICY.replace("name: dongles", "name: renamed"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(load, "lint_policies", crash)
            self.live.store.reload()

    def count(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def scene(tmp_path: Path) -> _Scene:
    return _Scene(tmp_path)


def test_a_crash_of_the_reader_is_logged_with_its_traceback_and_counted(scene: _Scene) -> None:
    digest = scene.live.store.get_status().digest
    scene.crash()
    line = scene.log.lines[-1]
    assert (line["level"], line["event"], line["in_force"]) == ("error", "policies-crashed", digest)
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert line["exception"].endswith("IndexError: a fault of ours")
    assert scene.count("tallygate_policy_reloads_total", result="failure") == 1
    assert scene.count("tallygate_policy_reloads_total", result="success") is None
    assert scene.count("tallygate_policy_broken") == 1


def test_readiness_says_that_the_reader_crashed_and_stays_ready(scene: _Scene) -> None:
    scene.crash()
    check = scene.live.check()
    assert check.ready
    assert (check.detail["crash"], check.detail["generation"]) == ("IndexError: a fault of ours", 1)


def test_a_crash_is_over_once_the_files_can_be_read(scene: _Scene) -> None:
    scene.crash()
    scene.live.store.reload()
    assert "crash" not in scene.live.check().detail
    assert scene.log.lines[-1]["event"] == "policies-loaded"
    assert scene.count("tallygate_policy_broken") == 0
