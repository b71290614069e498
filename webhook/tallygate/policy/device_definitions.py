"""Definitions of names that count devices by their attributes or capacities: `selector` and `sum` of `spec.devices`.

Such a name is an invention of the administrator: short, without a domain, and none of Kubernetes'. So no pod requests
it, and it is a name of `hard` and `soft` only where the cap defines it.
"""

import re
from collections.abc import Collection, Iterable, Iterator

from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.expression import compile_selector
from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.documents.syntax_tree import Entry, Node, Scalar, join_path
from tallygate.policy.formats import PODS_RESOURCE, quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import BAD_COUNTED_NAME, BAD_DEVICES

_SHORT_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_RESERVED_NAMES = frozenset({PODS_RESOURCE, "requests", "limits", "count"})
LIMIT_SECTIONS = ("hard", "soft", "surge.amounts", "overrideAnnotation.most")
"""The fields of a cap with amounts by counted name."""

_SECTIONS = (*LIMIT_SECTIONS, "devices")
_OWN = "counts devices by selector or sum"
_NAMED = {"devices": "selector or sum", "counts": "weights, an annotation or a product"}
_DEFINING_FIELDS = ("selector", "sum")


def check_device_definitions(file: str, document: Node, findings: set[LintFinding]) -> set[LintFinding]:
    """Return the findings about a document without those that its definitions refute, and with those about them."""
    spec = Fields(document).get_fields("spec")
    definitions = [entry for entry in spec.list_entries("devices") if _is_by_allocation(entry)]
    if not definitions:
        return findings
    own = {
        LintFinding.create(SourceLocation(file, *node.position), code, Severity.ERROR, message)
        for definition in definitions
        for node, code, message in (*check_own_name(definition, "devices", _OWN), *_check_definition(definition))
    }
    return refute_names(findings, spec, _SECTIONS, {definition.name for definition in definitions}) | own


def refute_names(
    findings: set[LintFinding], spec: Fields, sections: Iterable[str], names: Collection[str]
) -> set[LintFinding]:
    """Return the findings without those that no pod can request one of these names."""
    positions = {
        (entry.key.position.line, entry.key.position.column)
        for section in sections
        for entry in spec.list_entries(section)
        if entry.name in names
    }
    return {
        finding
        for finding in findings
        if finding.code != BAD_COUNTED_NAME or (finding.line, finding.column) not in positions
    }


def _is_by_allocation(definition: Entry) -> bool:
    fields = Fields(definition.value)
    return any(fields.get_node(name) is not None for name in _DEFINING_FIELDS)


def check_own_name(definition: Entry, section: str, counting: str) -> Iterator[tuple[Node, str, str]]:
    """Yield a problem of the name of a definition in a section: no pod may request it.

    `counting` says by what the name counts.
    """
    name = definition.name
    is_known = any(not find_name_problems(name, context) for context in (NameContext.CONTAINER, NameContext.QUOTA))
    if "/" in name or "." in name or not _SHORT_NAME.fullmatch(name):
        form = "lower-case letters, digits and '-', without a domain, as in gpu-memory"
        text = f"spec.{section}: {quote_text(name)} {counting}, so its name must be {form}"
        yield definition.key, BAD_COUNTED_NAME, text
    elif is_known or name in _RESERVED_NAMES:
        text = f"spec.{section}: {quote_text(name)} is a name of Kubernetes; choose another one for {_NAMED[section]}"
        yield definition.key, BAD_COUNTED_NAME, text


def _check_definition(definition: Entry) -> Iterator[tuple[Node, str, str]]:
    fields, path = Fields(definition.value), join_path("spec.devices", definition.name)
    classes, selector = fields.get_node("classes"), fields.get_node("selector")
    if classes is not None:
        text = (
            f"{path}: classes count devices when they are claimed, selector and sum when they are allocated; keep one"
        )
        yield classes, BAD_DEVICES, text
    if isinstance(selector, Scalar) and isinstance(selector.value, str) and selector.text:
        try:
            compile_selector(selector.text)
        except ExpressionError as error:
            position = f"line {error.position.line}, column {error.position.column} of the expression"
            yield selector, BAD_DEVICES, f"{path}.selector: {error.message} ({position})"
