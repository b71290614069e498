"""Definitions of amounts that a cap derives: `weights`, `annotation` and `product` of `spec.counts`.

Such a name is an invention of the administrator, as those of devices by attributes (`device_definitions`): no pod
requests it, so it is a name of `hard` and `soft` only where the cap defines it.
"""

from collections.abc import Iterator

from tallygate.accounting.names import (
    DEVICE_CLASS_PREFIX,
    DEVICES_SUFFIX,
    LIMITS_PREFIX,
    REQUESTS_PREFIX,
    is_countable,
)
from tallygate.documents.syntax_tree import Entry, Node, Scalar, join_path
from tallygate.policy.device_definitions import LIMIT_SECTIONS, check_own_name, refute_names
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import BAD_COUNTED_NAME, BAD_COUNTS, REPEATED
from tallygate.policy.suggest import suggest_resource

_OWN = "counts by weights, an annotation or a product"
_ADDED = {"weights": "weights are", "annotation": "the amount of an annotation is"}
_SECTIONS = (*LIMIT_SECTIONS, "counts")
_PREFIXES = (REQUESTS_PREFIX, LIMITS_PREFIX)
_Problem = tuple[Node, str, str]


def check_count_definitions(file: str, document: Node, findings: set[LintFinding]) -> set[LintFinding]:
    """Return the findings about a document without those that its definitions refute, and with those about them."""
    spec = Fields(document).get_fields("spec")
    definitions = spec.list_entries("counts")
    devices = {entry.name for entry in spec.list_entries("devices")}
    own = {
        LintFinding.create(SourceLocation(file, *node.position), code, Severity.ERROR, message)
        for definition in definitions
        for node, code, message in (
            *check_own_name(definition, "counts", _OWN),
            *_check_definition(definition, devices),
        )
    }
    names = {definition.name for definition in definitions}
    prefixed = {prefix + name for prefix in _PREFIXES for name in names}
    return refute_names(findings, spec, _SECTIONS, names | prefixed) | {*_explain_prefixes(file, spec, names)} | own


def _explain_prefixes(file: str, spec: Fields, names: set[str]) -> Iterator[LintFinding]:
    """Yield a finding for each limit of such a name with a prefix: an amount of several resources has none."""
    for section in LIMIT_SECTIONS:
        for entry in spec.list_entries(section):
            for prefix in _PREFIXES:
                if entry.name.startswith(prefix) and entry.name.removeprefix(prefix) in names:
                    name = entry.name.removeprefix(prefix)
                    text = f"spec.{section}: {quote_text(name)} {_OWN}, so it has no prefix; write {name}"
                    location = SourceLocation(file, *entry.key.position)
                    yield LintFinding.create(location, BAD_COUNTED_NAME, Severity.ERROR, text)


def _check_definition(definition: Entry, devices: set[str]) -> Iterator[_Problem]:
    fields, path = Fields(definition.value), join_path("spec.counts", definition.name)
    product = fields.get_node("product")
    for added in ("weights", "annotation"):
        if product is not None and fields.get_node(added) is not None:
            yield product, BAD_COUNTS, f"{path}: {_ADDED[added]} added up, a product is multiplied; keep one"
    if definition.name in devices:
        text = f"{path}: spec.devices defines this name too; keep one of both"
        yield definition.key, BAD_COUNTS, text
    for entry in fields.list_entries("weights"):
        if problem := _find_resource_problem(entry.name):
            yield entry.key, BAD_COUNTED_NAME, f"{path}.weights: {problem}"
    yield from _check_factors(fields.get_items("product"), path, devices)


def _check_factors(factors: list[Node], path: str, devices: set[str]) -> Iterator[_Problem]:
    """Yield the problems of the factors of a product, each a name or a mapping with one."""
    names = set[str]()
    for item in factors:
        node = item if isinstance(item, Scalar) else Fields(item).get_node("resource")
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            continue
        if problem := _find_resource_problem(node.text) or _find_factor_problem(node.text, devices):
            yield node, BAD_COUNTED_NAME, f"{path}.product: {problem}"
        elif node.text in names and node is not item:
            yield node, REPEATED, f"{path}.product: {quote_text(node.text)} is given twice; remove one"
        names.add(node.text)


def _find_resource_problem(name: str) -> str:
    """Return why a name cannot be weighed or multiplied, with a name that can, or an empty text."""
    for prefix in _PREFIXES:
        bare = name.removeprefix(prefix)
        if bare != name and is_countable(bare):
            return f"{quote_text(name)}: requests and limits of such a resource are equal; write {bare}"
    if is_countable(name) or name.startswith(DEVICE_CLASS_PREFIX):
        return ""
    suggestion = suggest_resource(name)
    hint = f'; did you mean "{suggestion}"?' if suggestion and is_countable(suggestion) else ""
    text = "only resources in whole units can be weighed or multiplied, as in nvidia.com/gpu"
    return f"{quote_text(name)}: {text}{hint}"


def _find_factor_problem(name: str, devices: set[str]) -> str:
    """Return why the devices of a name cannot be multiplied, or an empty text."""
    if name.startswith(DEVICE_CLASS_PREFIX) or name.endswith(DEVICES_SUFFIX):
        text = "a claim for devices requests no second resource to multiply by; write an extended resource"
        return f"{quote_text(name)}: {text}"
    if name in devices:
        return f"{quote_text(name)}: spec.devices counts claims under it, which have no product; remove it there"
    return ""
