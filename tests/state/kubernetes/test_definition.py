"""The CustomResourceDefinitions in deploy/ and in the code."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tallygate.state.kubernetes import cap_ledger, cap_usage
from tallygate.state.kubernetes.crd import create_crd, create_usage_crd
from tests.state.kubernetes.generate import generate_definitions


def schema(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that the API server validates."""
    result: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return result


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every part of a schema."""
    yield node
    for child in (*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")):
        if child:
            yield from nodes(child)


def test_the_deployed_definitions_are_current() -> None:
    for path, text in generate_definitions().items():
        assert path.read_text(encoding="utf-8") == text, "python -m tests.state.kubernetes.generate writes it again"


def test_the_definitions_describe_exactly_the_written_fields() -> None:
    ledger, usage = schema(create_crd())["properties"], schema(create_usage_crd())["properties"]["status"]
    for struct, described in (
        (cap_ledger.CapLedgerSpec, ledger["spec"]),
        (cap_ledger.CapLedgerStatus, ledger["status"]),
        (cap_ledger.CapLedgerSummary, ledger["status"]["properties"]["summary"]),
        (cap_usage.PublishedStatus, usage),
        (cap_usage.PublishedResource, usage["properties"]["resources"]["items"]),
        (cap_usage.PublishedSummary, usage["properties"]["summary"]),
    ):
        assert {field.encode_name for field in msgspec.structs.fields(struct)} == described["properties"].keys()


def test_every_map_and_list_has_one_owner_and_no_number_is_a_float() -> None:
    for definition in (create_crd(), create_usage_crd()):
        for node in nodes(schema(definition)):
            assert node["type"] != "number"
            if "additionalProperties" in node:
                assert node["x-kubernetes-map-type"] == "atomic"
            if node["type"] == "array":
                assert node["x-kubernetes-list-type"] == "atomic"
