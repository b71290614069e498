"""A new ConfigMap with policies: what is an error beside the other files of a gate, and what is not."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.parse import MAX_FILE_BYTES
from tallygate.policy.policy_config_maps import ConfigMapReport, PolicyConfigMap, lint_config_map
from tests.policy.files import NOON, rule_text
from tests.policy.test_hostile import HOSTILE

FOLDER, OTHER = "/etc/tallygate/policies", "/etc/tallygate/more"
GPUS, LICENCES = rule_text("gpus"), rule_text("licences")
BROKEN = GPUS.replace("resources", "resourses")
KIND = """
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: trains}
spec:
  group: trains.example.com
  kind: Train
  resource: trains
  podSets: [{name: cars, template: spec.template}]
"""
OF_KIND = GPUS.replace("spec: {", "spec: {match: {kinds: [Train]}, ")


def create_config_map(**texts: str) -> PolicyConfigMap:
    """Return a ConfigMap with these texts; `_` in a name stands for the dot."""
    return PolicyConfigMap(data={name.replace("_", "."): text for name, text in texts.items()})


def lint(new: PolicyConfigMap, stored: PolicyConfigMap | None = None, **loaded: str) -> ConfigMapReport:
    """Lint a ConfigMap beside files of the folder in which it is mounted; `other_…` are in another folder."""
    files = {
        f"{OTHER if name.startswith('other') else FOLDER}/{name.replace('_', '.')}": text.encode()
        for name, text in loaded.items()
    }
    return lint_config_map(new, stored, files, NOON)


def summarize(findings: tuple[LintFinding, ...]) -> list[str]:
    """Return file, line and code of each finding."""
    return [f"{finding.file}:{finding.line} {finding.code}" for finding in findings]


@pytest.mark.parametrize(
    ("new", "stored", "loaded", "errors"),
    [
        pytest.param({"a_yaml": GPUS}, None, {}, [], id="a new one that is valid"),
        pytest.param({"a_yaml": BROKEN}, None, {}, ["a.yaml:4 TG308", "a.yaml:4 TG307"], id="a new one with an error"),
        pytest.param({"a_yaml": LICENCES}, {"a_yaml": GPUS}, {"a_yaml": GPUS}, [], id="a change that is valid"),
        pytest.param(
            {"a_yaml": BROKEN},
            {"a_yaml": GPUS},
            {"a_yaml": GPUS},
            ["a.yaml:4 TG308", "a.yaml:4 TG307"],
            id="a change with an error",
        ),
        pytest.param({"a_yaml": BROKEN}, {"a_yaml": BROKEN}, {}, [], id="other metadata, with an error that is stored"),
        pytest.param({"a_yaml": GPUS}, {"a_yaml": BROKEN}, {"a_yaml": BROKEN}, [], id="the mend of an error"),
        pytest.param({"b_yaml": GPUS}, {"a_yaml": GPUS}, {"a_yaml": GPUS}, [], id="a key with another name"),
        pytest.param(
            {"a_yaml": GPUS, "b_yaml": GPUS},
            {"a_yaml": GPUS},
            {"a_yaml": GPUS},
            ["b.yaml:3 TG316"],
            id="one name twice in it",
        ),
        pytest.param(
            {"a_yaml": GPUS},
            {"a_yaml": LICENCES},
            {"a_yaml": LICENCES, "other_yaml": GPUS},
            ["a.yaml:3 TG316"],
            id="a name of another ConfigMap",
        ),
        pytest.param(
            {"a_yaml": LICENCES},
            {"a_yaml": GPUS},
            {"a_yaml": GPUS, "other_yaml": BROKEN},
            [],
            id="an error of another ConfigMap, which is no reason",
        ),
        pytest.param(
            {"a_yaml": LICENCES},
            {"a_yaml": KIND},
            {"a_yaml": KIND, "other_yaml": OF_KIND},
            [f"{OTHER}/other.yaml:4 TG345"],
            id="a kind that another ConfigMap needs is removed",
        ),
        pytest.param(
            {"a_yaml": OF_KIND}, {"a_yaml": GPUS}, {"a_yaml": GPUS, "other_yaml": KIND}, [], id="a kind of another one"
        ),
        pytest.param({"a_yaml": OF_KIND}, None, {}, ["a.yaml:4 TG345"], id="a kind that no policy defines"),
        pytest.param({"a_yaml": OF_KIND}, None, {"other_yaml": KIND}, [], id="a new one with a kind of another one"),
        pytest.param(
            {"b_yaml": GPUS}, None, {"a_yaml": GPUS}, [], id="a new one in place of one that is deleted, with its names"
        ),
        pytest.param(
            {"c_yaml": GPUS},
            {"b_yaml": GPUS},
            {"a_yaml": GPUS},
            [],
            id="a second change before the volume has the first",
        ),
        pytest.param({}, {"a_yaml": GPUS}, {"a_yaml": GPUS}, ["data:1 TG301"], id="the last policy is removed"),
        pytest.param({"gpus": GPUS}, {"a_yaml": GPUS}, {"a_yaml": GPUS}, ["data:1 TG301"], id="keys without a suffix"),
        pytest.param({"a_yaml": ""}, {"a_yaml": GPUS}, {"a_yaml": GPUS}, ["a.yaml:1 TG301"], id="an empty file"),
        pytest.param({}, {"a_yaml": GPUS}, {"a_yaml": GPUS, "other_yaml": LICENCES}, [], id="others are left"),
    ],
)
def test_errors_are_those_for_which_no_gate_would_load_it(
    new: dict[str, str], stored: dict[str, str] | None, loaded: dict[str, str], errors: list[str]
) -> None:
    config_map = create_config_map(**stored) if stored is not None else None
    assert summarize(lint(create_config_map(**new), config_map, **loaded).errors) == errors


def test_a_config_map_of_a_projected_volume_is_known_among_the_other_keys() -> None:
    report = lint(create_config_map(a_yaml=GPUS), create_config_map(a_yaml=KIND), a_yaml=KIND, b_yaml=GPUS)
    assert report.has_others
    assert summarize(report.errors) == ["a.yaml:3 TG316"]


def test_warnings_are_those_of_lint_and_of_keys_that_no_gate_reads() -> None:
    wide = GPUS.replace("resources: [gpus.example/x]", "resources: [nvidia.com/gpus]")
    report = lint(create_config_map(a_yaml=wide, notes="x"), create_config_map(a_yaml=GPUS), a_yaml=GPUS)
    assert summarize(report.warnings) == ["a.yaml:4 TG339", "notes:1 TG301"]
    assert report.errors == ()


def test_binary_data_is_read_as_a_volume_has_it() -> None:
    content = b'{"metadata": {"name": "p"}, "data": {"a.yaml": ""}, "binaryData": {"b.yaml": "//4="}}'
    config_map = msgspec.json.decode(content, type=PolicyConfigMap)
    assert config_map.list_contents() == {"a.yaml": b"", "b.yaml": b"\xff\xfe"}
    assert summarize(lint(config_map).errors) == ["b.yaml:1 TG301"]


@pytest.mark.parametrize("make", [make for make, _ in HOSTILE.values()], ids=HOSTILE)
def test_hostile_config_maps_are_read_in_limited_time(make: Callable[[], bytes]) -> None:
    content: Any = {"binaryData": {"a.yaml": make()[:MAX_FILE_BYTES]}}
    config_map = msgspec.convert(content, PolicyConfigMap)
    started_at = time.process_time()
    report = lint(config_map, create_config_map(a_yaml=GPUS), a_yaml=GPUS, other_yaml=LICENCES)
    assert time.process_time() - started_at < 5  # the API server waits no longer
    assert report.errors or b"!!python" in make()  # a document of another tool, which no gate reads
