"""The names that a cap defines itself: of devices by their attributes, and of amounts that are derived from resources.

Such a name is an invention of the administrator: short, without a domain, and none of Kubernetes'. So no pod requests
it, and it is a name of `hard` and `soft` only where the cap defines it.
"""

import re
from collections.abc import Collection, Iterable, Iterator

from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.expression import compile_selector
from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX, LIMITS_PREFIX, REQUESTS_PREFIX, is_countable
from tallygate.documents.syntax_tree import Entry, Node, Scalar, join_path
from tallygate.policy.formats import PODS_RESOURCE, quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import BAD_COUNTED_NAME, BAD_COUNTS, BAD_DEVICES, REPEATED
from tallygate.policy.suggest import suggest_resource

_SHORT_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_RESERVED_NAMES = frozenset({PODS_RESOURCE, "requests", "limits", "count"})
_LIMIT_SECTIONS = ("hard", "soft", "surge.amounts", "overrideAnnotation.most")

_COUNTING = {"devices": "counts devices by selector or sum", "counts": "counts by weights, an annotation or a product"}
_NAMED = {"devices": "selector or sum", "counts": "weights, an annotation or a product"}
_ADDED = {"weights": "weights are", "annotation": "the amount of an annotation is"}
_DEFINING_FIELDS = ("selector", "sum")
_PREFIXES = (REQUESTS_PREFIX, LIMITS_PREFIX)
_Problem = tuple[Node, str, str]


def check_own_names(file: str, document: Node, findings: set[LintFinding]) -> set[LintFinding]:
    """Return the findings about a document without those that its definitions refute, and with those about them."""
    spec = Fields(document).get_fields("spec")
    devices = [entry for entry in spec.list_entries("devices") if _is_by_allocation(entry)]
    counts, device_names = spec.list_entries("counts"), {entry.name for entry in spec.list_entries("devices")}
    problems = [problem for entry in devices for problem in (*_check_name(entry, "devices"), *_check_device(entry))]
    for entry in counts:
        problems += (*_check_name(entry, "counts"), *_check_count(entry, device_names))
    names = {entry.name for entry in counts}
    problems += _explain_prefixes(spec, names)
    prefixed = {prefix + name for prefix in _PREFIXES for name in names}
    limits = [entry for entries in list_limits(spec).values() for entry in entries]
    own_devices = {entry.name for entry in devices}
    findings = _refute_names(findings, [*limits, *spec.list_entries("devices")], own_devices)
    findings = _refute_names(findings, [*limits, *counts], names | prefixed)
    return findings | {
        LintFinding.create(SourceLocation(file, *node.position), code, Severity.ERROR, message)
        for node, code, message in problems
    }


def list_limits(spec: Fields) -> dict[str, list[Entry]]:
    """Return the amounts by counted name in the fields of a cap that have some, by the path of the field."""
    limits = {section: spec.list_entries(section) for section in _LIMIT_SECTIONS}
    guarantees = enumerate(spec.get_items("guarantee"))
    return limits | {f"guarantee[{index}].amounts": Fields(item).list_entries("amounts") for index, item in guarantees}


def _refute_names(findings: set[LintFinding], entries: Iterable[Entry], names: Collection[str]) -> set[LintFinding]:
    """Return the findings without those that no pod can request one of these names, of these entries."""
    positions = {(entry.key.position.line, entry.key.position.column) for entry in entries if entry.name in names}
    return {
        finding
        for finding in findings
        if finding.code != BAD_COUNTED_NAME or (finding.line, finding.column) not in positions
    }


def _is_by_allocation(definition: Entry) -> bool:
    fields = Fields(definition.value)
    return any(fields.get_node(name) is not None for name in _DEFINING_FIELDS)


def _check_name(definition: Entry, section: str) -> Iterator[_Problem]:
    """Yield a problem of the name of a definition in a section: no pod may request it."""
    name = definition.name
    is_known = any(not find_name_problems(name, context) for context in (NameContext.CONTAINER, NameContext.QUOTA))
    if "/" in name or "." in name or not _SHORT_NAME.fullmatch(name):
        form = "lower-case letters, digits and '-', without a domain, as in gpu-memory"
        text = f"spec.{section}: {quote_text(name)} {_COUNTING[section]}, so its name must be {form}"
        yield definition.key, BAD_COUNTED_NAME, text
    elif is_known or name in _RESERVED_NAMES:
        text = f"spec.{section}: {quote_text(name)} is a name of Kubernetes; choose another one for {_NAMED[section]}"
        yield definition.key, BAD_COUNTED_NAME, text


def _check_device(definition: Entry) -> Iterator[_Problem]:
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


def _explain_prefixes(spec: Fields, names: set[str]) -> Iterator[_Problem]:
    """Yield a problem for each limit of such a name with a prefix: an amount of several resources has none."""
    for section, entries in list_limits(spec).items():
        for entry in entries:
            for prefix in _PREFIXES:
                if entry.name.startswith(prefix) and entry.name.removeprefix(prefix) in names:
                    name = entry.name.removeprefix(prefix)
                    text = (
                        f"spec.{section}: {quote_text(name)} {_COUNTING['counts']}, so it has no prefix; write {name}"
                    )
                    yield entry.key, BAD_COUNTED_NAME, text


def _check_count(definition: Entry, devices: set[str]) -> Iterator[_Problem]:
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
