"""The pods that the reader counts in an object, compared with those that the project's own controller made of it.

`python -m e2e.workload_kinds.controllers` wrote the tables: objects as written and as the API server stored them, and
the number of pods by the label of their template, also after a change by an autoscaler or a user.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.workload_kinds.controllers.counting import Case, list_cases
from e2e.workload_kinds.controllers.projects import PROJECTS
from tallygate.admission.kinds import REVIEW_TARGETS

TABLES = Path(__file__).parent / "controller_pods"
RECORDS = [
    json.loads(line) for project in PROJECTS for line in (TABLES / f"{project.name}.jsonl").read_text().splitlines()
]
CASES: list[Case] = [case for project in PROJECTS for case in list_cases(project)]
NOT_READ: dict[str, dict[str, int]] = {
    "a TrainJob without a number has that of its runtime": {"nodes": 1},
    "a TrainJob without resources has those of its runtime": {},
    "a TrainJob of MPI has a launcher beside its nodes": {"nodes": 3},
    "the template of a Rollout may be that of a Deployment": {},
    "a paused Rollout starts no pods before it goes on": {"main": 2},  # one that is paused later keeps its pods
}
"""What the reader counts where it differs from the controller: another object has the template or the number."""


class Counts(NamedTuple):
    """The number of pods by the label of their template: at the start, and the most with a rollout or autoscaler."""

    at_start: Counter[str]
    largest: Counter[str]


def count_pods(content: dict[str, Any]) -> Counts:
    """Return the number of pods in an object; without a label, the name of the pods in messages stands for it."""
    group = content["apiVersion"].rpartition("/")[0]
    target = REVIEW_TARGETS[group, content["kind"]]
    counts = Counts(Counter(), Counter())
    for view in target.list_pods(target.decode(json.dumps(content).encode())):
        assert view.replicas
        labels = (view.pod.metadata and view.pod.metadata.labels) or {}
        label = labels.get("template", view.replicas.noun)
        if view.replicas.is_separate and not view.replicas.is_first:
            continue  # these pods start later
        counts.at_start[label] += view.replicas.count
        counts.largest[label] += view.replicas.most or view.replicas.count + view.replicas.surge
    return Counts(+counts.at_start, +counts.largest)


def select_read(pods: dict[str, int]) -> dict[str, int]:
    """Return the pods of templates of the object: controllers make others without one."""
    return {label: count for label, count in pods.items() if label}


@pytest.mark.parametrize("record", [pytest.param(each, id=each["case"]) for each in RECORDS])
def test_counts_as_the_controller(record: dict[str, Any]) -> None:
    assert record["objects"]
    made = select_read(record["pods"])
    expected = NOT_READ.get(record["case"], made)
    assert [count_pods(content).at_start for content in record["objects"]] == [expected] * len(record["objects"])
    assert (expected == made) == (record["case"] not in NOT_READ)


@pytest.mark.parametrize("record", [pytest.param(each, id=each["case"]) for each in RECORDS if "changed" in each])
def test_counts_the_most_pods_as_the_controller(record: dict[str, Any]) -> None:
    expected = select_read(record["changed"])
    assert [count_pods(content).largest for content in record["objects"]] == [expected] * len(record["objects"])


def test_the_tables_have_all_cases_of_the_required_versions() -> None:
    cases = [(case.name, case.project.module, case.project.version) for case in CASES]
    assert [(each["case"], each["module"], each["version"]) for each in RECORDS] == cases
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_tables_have_the_objects_as_written() -> None:
    written = {case.name: case.object for case in CASES}
    differing = [
        each["case"]
        for each in RECORDS
        if each["objects"][0]["kind"] != "Workload" and each["objects"][0] != written[each["case"]]
    ]
    assert not differing
