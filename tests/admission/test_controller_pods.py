"""The pods that the reader counts in an object, compared with those that the project's own controller made of it.

`python -m e2e.workload_kinds.controllers` wrote the table: objects as written and as the API server stored them, and
the number of pods by the label of their template.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.workload_kinds.controllers.counting import list_cases
from tallygate.webhook.admission.kinds import REVIEW_TARGETS

RECORDS = [json.loads(line) for line in (Path(__file__).parent / "controller_pods.jsonl").read_text().splitlines()]


def count_pods(content: dict[str, Any]) -> Counter[str]:
    """Return the number of pods in an object by the label of their template."""
    group = content["apiVersion"].rpartition("/")[0]
    target = REVIEW_TARGETS[group, content["kind"]]
    counts: Counter[str] = Counter()
    for view in target.list_pods(target.decode(json.dumps(content).encode())):
        assert view.replicas
        assert view.pod.metadata
        counts[(view.pod.metadata.labels or {})["template"]] += view.replicas.count
    return +counts


@pytest.mark.parametrize("record", [pytest.param(each, id=each["case"]) for each in RECORDS])
def test_counts_as_the_controller(record: dict[str, Any]) -> None:
    assert record["objects"]
    assert [count_pods(content) for content in record["objects"]] == [record["pods"]] * len(record["objects"])


def test_the_table_has_all_cases_of_the_required_versions() -> None:
    cases = [(case.name, case.project.module, case.project.version) for case in list_cases()]
    assert [(each["case"], each["module"], each["version"]) for each in RECORDS] == cases


def test_the_table_has_the_objects_as_written() -> None:
    written = {case.name: case.object for case in list_cases()}
    differing = [
        each["case"]
        for each in RECORDS
        if each["objects"][0]["kind"] != "Workload" and each["objects"][0] != written[each["case"]]
    ]
    assert not differing
