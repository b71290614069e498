"""The CustomResourceDefinition in deploy/ and in the code."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.crd import create_crd
from tests.state.kubernetes.generate import PATH, generate


def schema() -> dict[str, Any]:
    """Return the schema that the API server validates."""
    result: dict[str, Any] = create_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return result


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every part of a schema."""
    yield node
    for child in (*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")):
        if child:
            yield from nodes(child)


def test_the_deployed_definition_is_current() -> None:
    assert PATH.read_text(encoding="utf-8") == generate(), "python -m tests.state.kubernetes.generate writes it again"


def test_the_definition_describes_exactly_the_written_fields() -> None:
    for struct, described in (
        (cap_ledger.CapLedgerSpec, schema()["properties"]["spec"]),
        (cap_ledger.CapLedgerStatus, schema()["properties"]["status"]),
        (cap_ledger.CapLedgerSummary, schema()["properties"]["status"]["properties"]["summary"]),
    ):
        assert {field.encode_name for field in msgspec.structs.fields(struct)} == described["properties"].keys()


def test_every_map_and_list_has_one_owner() -> None:
    for node in nodes(schema()):
        if "additionalProperties" in node:
            assert node["x-kubernetes-map-type"] == "atomic"
        if node["type"] == "array":
            assert node["x-kubernetes-list-type"] == "atomic"
