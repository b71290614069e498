"""The pods of Argo Workflows, put together of a template, the defaults, the spec and patches."""

import json
from typing import Any

import msgspec
import pytest

from tallygate.accounting.validation.pods import validate_pod
from tallygate.admission.pod_view import Completeness, PodView
from tallygate.admission.workflow_templates import UnknownPatchError, merge_values
from tests.admission.test_known_kinds import locate_amounts, read_views
from tests.admission.test_pod_sets import GPU

CLAIMS = [{"name": "dev", "resourceClaimTemplateName": "two"}]
OTHERS = [{"name": "dev", "resourceClaimTemplateName": "four"}]
USER = {"image": "x", "resources": {"claims": [{"name": "dev"}]}}
PATCHED = {"resources": {"limits": {"cpu": 4}}}
LIMITED = {"resources": {"limits": {GPU: 1}}}


def read_pod(template: dict[str, Any], **spec: Any) -> PodView:
    """Return the pod of the only template of a Workflow."""
    views = read_views("Workflow.argoproj.io", {"entrypoint": "m", "templates": [{"name": "m", **template}], **spec})
    return next(view for view in views if view.path.startswith("spec.templates[0]"))


def list_claims(view: PodView) -> list[tuple[str | None, str | None]]:
    """Return the claims of a pod: their names and templates."""
    assert view.pod.spec is not None
    return [(each.name, each.resource_claim_template_name) for each in view.pod.spec.resource_claims or ()]


@pytest.mark.parametrize(
    ("template", "spec", "place"),
    [
        pytest.param({"container": USER}, {"resourceClaims": CLAIMS}, "spec.resourceClaims", id="of the spec"),
        pytest.param(
            {"container": USER, "resourceClaims": CLAIMS},
            {"resourceClaims": OTHERS},
            "spec.templates[0].resourceClaims",
            id="of the template in place of those of the spec",
        ),
        pytest.param(
            {"script": USER},
            {"templateDefaults": {"resourceClaims": CLAIMS}},
            "spec.templates[0].resourceClaims",
            id="of the defaults",
        ),
        pytest.param(
            {"containerSet": {"containers": [{"name": "a", **USER}]}},
            {"podSpecPatch": json.dumps({"resourceClaims": CLAIMS})},
            "spec.podSpecPatch",
            id="of the patch of the spec",
        ),
        pytest.param(
            {
                "container": USER,
                "podSpecPatch": "resourceClaims:\n- name: dev\n  resourceClaimTemplateName: two\n",
            },
            {"resourceClaims": OTHERS},
            "spec.templates[0].podSpecPatch",
            id="of the patch of the template, after all others",
        ),
    ],
)
def test_the_pod_has_the_claims(template: dict[str, Any], spec: dict[str, Any], place: str) -> None:
    view = read_pod(template, **spec)
    assert list_claims(view) == [("dev", "two")]
    assert view.locate("spec.resourceClaims") == place
    assert validate_pod(view.pod, template=True) == []
    assert not view.is_partial


def test_a_claim_that_the_pod_lacks_is_a_problem_where_all_parts_are_known() -> None:
    view = read_pod({"container": USER}, resourceClaims=[{"name": "other", "resourceClaimName": "a"}])
    assert [each.code for each in validate_pod(view.pod, template=True)] == ["TG017"]
    assert view.completeness is Completeness.WHOLE


@pytest.mark.parametrize(
    ("template", "spec"),
    [
        pytest.param({"podSpecPatch": "{{inputs.parameters.patch}}"}, {}, id="a patch that is a parameter"),
        pytest.param({"podSpecPatch": "containers: ["}, {}, id="a patch that nothing can read"),
        pytest.param({"podSpecPatch": "text"}, {}, id="a patch that is no mapping"),
        pytest.param({}, {"podSpecPatch": "a: " + "x" * 20_000}, id="a patch that is too long"),
        pytest.param({}, {"podSpecPatch": "{containers: [{$patch: delete, name: main}]}"}, id="a directive"),
        pytest.param({}, {"podSpecPatch": "containers: {}"}, id="a patch of another type"),
        pytest.param({}, {"workflowTemplateRef": {"name": "base"}}, id="a template that another object has"),
    ],
)
def test_the_pod_is_known_in_part(template: dict[str, Any], spec: dict[str, Any]) -> None:
    assert read_pod({"container": USER, **template}, **spec).is_partial


def test_defaults_and_patches_give_resources_with_their_places() -> None:
    workflow = {
        "templateDefaults": {
            "container": {"resources": {"limits": {GPU: 1, "cpu": 2}}},
            "script": {"resources": {"limits": {GPU: 64}}},
            "sidecars": [{"name": "s", "resources": {"limits": {"cpu": 1}}}],
        },
        "podSpecPatch": json.dumps(
            {"containers": [{"name": "s", "resources": {"limits": {"cpu": 3}}}, {"name": "new", **PATCHED}]}
        ),
        "templates": [
            {"name": "a", "container": {"image": "x"}},
            {"name": "b", "container": {"image": "x", "resources": {"limits": {GPU: 8}}}},
        ],
    }
    assert {
        path: amounts
        for path, amounts in locate_amounts("Workflow.argoproj.io", workflow).items()
        if not path.startswith(("spec.templateDefaults.script", "spec.templateDefaults.sidecars"))
    } == {
        "spec.templateDefaults.container.resources.limits": {GPU: "1", "cpu": "2"},
        "spec.podSpecPatch.limits": {"cpu": "3"},
        "spec.podSpecPatch.resources.limits": {"cpu": "4"},
        "spec.templates[1].container.resources.limits": {GPU: "8", "cpu": "2"},
    }


def test_the_constraints_of_the_spec_are_those_of_templates_without_any() -> None:
    spec = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "podPriorityClassName": "high"}
    for template, expected in (({}, {"a": "b"}), ({"nodeSelector": {"c": "d"}}, {"c": "d"})):
        pod_spec = read_pod({"container": LIMITED, **template}, **spec).pod.spec
        assert pod_spec is not None
        assert pod_spec.node_selector == expected
        assert pod_spec.priority_class_name == "high"


@pytest.mark.parametrize(
    ("base", "patch", "expected"),
    [
        ({"a": 1, "b": {"c": 1}}, {"b": {"d": 2}}, {"a": 1, "b": {"c": 1, "d": 2}}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        (
            {"containers": [{"name": "a", "x": 1}, {"name": "b"}]},
            {"containers": [{"name": "c"}, {"name": "a", "y": 2}]},
            {"containers": [{"name": "a", "x": 1, "y": 2}, {"name": "b"}, {"name": "c"}]},
        ),
        ({"tolerations": [1, 2]}, {"tolerations": [3]}, {"tolerations": [3]}),
    ],
    ids=["mappings", "a null", "over a null", "named items", "other items"],
)
def test_a_patch_is_merged_as_a_strategic_one(
    base: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    merged = merge_values(msgspec.Raw(msgspec.json.encode(base)), msgspec.Raw(msgspec.json.encode(patch)))
    assert msgspec.json.decode(merged) == expected


def test_a_patch_with_a_directive_is_not_merged() -> None:
    with pytest.raises(UnknownPatchError):
        merge_values(msgspec.Raw(b'{"a":{}}'), msgspec.Raw(b'{"a":{"$patch":"delete"}}'))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"templateDefaults": {"container": {"command": ["x" * 100_000]}}}, id="defaults"),
        pytest.param({"podSpecPatch": "x: " + "y" * 15_000}, id="a patch"),
    ],
)
def test_templates_beyond_a_number_of_bytes_are_known_in_part(spec: dict[str, Any]) -> None:
    templates = [{"name": f"t{number}", "container": LIMITED} for number in range(600)]
    views = read_views("Workflow.argoproj.io", {"templates": templates, **spec})
    parts = [view.is_partial for view in views if view.path.startswith("spec.templates[")]
    assert not parts[0]
    assert parts[-1]
    assert parts == sorted(parts)


def test_a_patch_that_nests_deep_takes_no_time() -> None:
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    assert msgspec.json.decode(merge_values(msgspec.Raw(deep), msgspec.Raw(deep)))
