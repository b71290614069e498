"""Unknown fields of manifests, and the table that they are compared with."""

import re
from pathlib import Path

import pytest

from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.known_fields import find_unknown_fields
from tallygate.manifests.manifest_objects import Manifest, list_objects
from tests.manifests.field_table import TABLE, create_table, format_table, get_client_minor


def find_fields(text: str) -> list[str]:
    """Return position, field and message of each unknown field, in the order of their positions."""
    objects = [each for document in read_documents(text, DEFAULT_LIMITS) for each in list_objects("f", document)]
    found = [
        each
        for manifest in objects
        if isinstance(manifest, Manifest)
        for each in find_unknown_fields(manifest, REVIEW_TARGETS)
    ]
    ordered = sorted(found, key=lambda each: (each.position, each.field))
    return [f"{each.position.line}:{each.position.column} {each.field}: {each.message}" for each in ordered]


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(POD + "  containers: [{name: a, resources: {limits: {x.org/y: 1}}}]\n", [], id="known fields"),
        pytest.param(
            POD + "  containers:\n  - {name: a}\n  - {name: b, resource: {}}\n",
            ['7:15 spec.containers[1].resource: there is no such field here; did you mean "resources"?'],
            id="a misspelt field",
        ),
        pytest.param(
            POD + "  containers: [{name: a, resources: {Limits: {}, request: {}}}]\n",
            [
                '5:38 spec.containers[0].resources.Limits: there is no such field here; did you mean "limits"?',
                '5:50 spec.containers[0].resources.request: there is no such field here; did you mean "requests"?',
            ],
            id="letter case and several at once",
        ),
        pytest.param(
            POD + "  containers: [{name: a, limits: {}, nodeSelector: {}}]\n",
            [
                (
                    "5:26 spec.containers[0].limits: there is no such field here; it belongs in "
                    "spec.containers[0].resources"
                ),
                "5:38 spec.containers[0].nodeSelector: there is no such field here; it belongs in spec",
            ],
            id="a field at another level",
        ),
        pytest.param(
            POD + "  zzz: 1\n", ["5:3 spec.zzz: there is no such field here; remove it"], id="a field of nothing"
        ),
        pytest.param(
            "apiVersion: batch/v1\nkind: CronJob\nspec:\n  jobTemplate: {spec: {template: {kind: Pod}}}\n",
            [("4:35 spec.jobTemplate.spec.template.kind: there is no such field here; it belongs in the top level")],
            id="a template has no kind",
        ),
        pytest.param(
            POD + "  containers:\n  - &a {name: a, cpus: 1}\n  initContainers: [*a, *a]\n  ephemeralContainers: [*a]\n",
            [
                "6:18 spec.containers[0].cpus: there is no such field here; remove it",
                "6:18 spec.ephemeralContainers[0].cpus: there is no such field here; remove it",
            ],
            id="an alias once for each type",
        ),
        pytest.param(
            POD + "  containers: [{<<: {name: a, imag: x}, stdin: true}]\n",
            ['5:31 spec.containers[0].imag: there is no such field here; did you mean "image"?'],
            id="a merged mapping",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nstatus: {capacity: {any.org/name: 1}}\nmetadata: {annotations: {a: b}}\n",
            [],
            id="keys of maps are no fields",
        ),
        pytest.param(POD + "  containers: none\n", [], id="a value of another type has no fields"),
        pytest.param(POD + "  workloadRef: {name: w}\n", [], id="a field that only Kubernetes 1.35 has"),
    ],
)
def test_unknown_fields_are_found(text: str, found: list[str]) -> None:
    assert find_fields(text) == found


def test_aliases_of_aliases_are_visited_once() -> None:
    """Do not expand them: written out, these are a billion containers."""
    levels = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 10))
    text = f"{POD}  l0: &l0 [{{name: a, cpus: 1}}]\n{levels}  containers: *l9\n"
    assert len([each for each in find_fields(text) if "cpus" in each]) == 1


def test_the_table_is_that_of_the_official_client() -> None:
    """Compare the whole file, if the installed client is of the minor version that the table is made from."""
    written = Path(TABLE).read_text()
    (minor,) = re.findall(r'"minor": (\d+)', written)
    if int(minor) == get_client_minor():
        assert written == format_table(create_table())
    else:
        assert int(minor) < get_client_minor()
