"""The comparison of a step's result with its expectation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tallygate.accounting.amounts import format_amount, round_up_to_unit
from tallygate.accounting.names import REQUESTS_PREFIX
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.cli.scenarios.scenario import PublishedNode, RequestResult
from tallygate.cli.scenarios.scenario_document import AMOUNT_KINDS, ExpectedLedger, ExpectedNode, StepExpectation
from tallygate.cli.scenarios.simulated_cluster import CapUsage


@dataclass(frozen=True, slots=True)
class Difference:
    """An expected and an actual value of `subject`, for example `verdict`."""

    subject: str
    expected: str
    actual: str


def find_differences(
    expectation: StepExpectation,
    result: RequestResult,
    cap_usages: Sequence[CapUsage],
    nodes: Sequence[PublishedNode] = (),
) -> Iterator[Difference]:
    """Yield the differences of a step; if the verdict differs, only that one, which causes the others."""
    if result.verdict is not expectation.verdict:
        yield Difference("verdict", expectation.verdict.value, format_verdict(result))
        return
    yield from _compare_denial(expectation, result)
    yield from _compare_warnings(expectation, result)
    yield from _compare_filled(expectation, result)
    for noun, expected_count, actual_count in (
        ("created", expectation.pods.created, result.pods_created),
        ("missing", expectation.pods.missing, result.pods_missing),
    ):
        if expected_count is not None and expected_count != actual_count:
            yield Difference(f"pods {noun}", str(expected_count), str(actual_count))
    for ledger in expectation.ledgers:
        yield from _compare_ledger(ledger, cap_usages)
    nodes_by_name = {node.name: node for node in nodes}
    for name, node in expectation.nodes.items():
        yield from _compare_node(node, nodes_by_name.get(name) or PublishedNode(name, {}, {}))


def format_verdict(result: RequestResult) -> str:
    """Return the verdict with the component that rejected the request, and its message."""
    rejected_by = f" by {result.rejected_by}" if result.rejected_by else ""
    return f"{result.verdict.value}{rejected_by}{': ' if result.message else ''}{result.message}"


def _compare_denial(expectation: StepExpectation, result: RequestResult) -> Iterator[Difference]:
    if expectation.codes is not None and sorted(set(expectation.codes)) != sorted(result.codes):
        yield Difference("codes", _format_texts(sorted(set(expectation.codes))), _format_texts(sorted(result.codes)))
    if expectation.message is not None and expectation.message not in result.message:
        yield Difference("message", f"… {expectation.message} …", result.message or "no message")


def _compare_warnings(expectation: StepExpectation, result: RequestResult) -> Iterator[Difference]:
    expected_warnings = expectation.warnings
    if expected_warnings is None:
        return
    missing = [text for text in expected_warnings if not any(text in warning for warning in result.warnings)]
    if missing or (not expected_warnings and result.warnings):
        expected_text = " | ".join(f"… {text} …" for text in missing) or "no warning"
        yield Difference("warnings", expected_text, " | ".join(result.warnings) or "no warning")


def _compare_filled(expectation: StepExpectation, result: RequestResult) -> Iterator[Difference]:
    if expectation.filled is not None:
        expected = {field: str(value) for field, value in expectation.filled.items()}
        if not _has_equal_values(expected, result.filled):
            yield Difference("filled in", _format_values(expected), _format_values(result.filled))


def _has_equal_values(expected: Mapping[str, str], actual: Mapping[str, str]) -> bool:
    return expected.keys() == actual.keys() and all(_is_equal(expected[key], actual[key]) for key in expected)


def _is_equal(expected: str, actual: str) -> bool:
    try:
        return Quantity.parse(expected) == Quantity.parse(actual)
    except QuantityError:
        return expected == actual


def _format_values(values: Mapping[str, str]) -> str:
    return ", ".join(f"{field}: {value}" for field, value in sorted(values.items())) or "nothing"


def _format_texts(texts: Sequence[str]) -> str:
    return ", ".join(texts) or "none"


def _compare_ledger(expectation: ExpectedLedger, cap_usages: Sequence[CapUsage]) -> Iterator[Difference]:
    usages_of_cap = [usage for usage in cap_usages if usage.active_cap.definition.name == expectation.cap]
    cap_usage = next((usage for usage in usages_of_cap if _is_expected(usage, expectation.namespace or "")), None)
    title = f"ledger {expectation.cap} {expectation.namespace or ''}".rstrip()
    if cap_usage is None:
        yield Difference(title, "exists", f"cap {expectation.cap} does not count this namespace")
        return
    for amount_kind in AMOUNT_KINDS:
        amounts: Mapping[str, Quantity] | None = getattr(expectation, amount_kind)
        for written_name, quantity in (amounts or {}).items():
            name = written_name.removeprefix(REQUESTS_PREFIX)
            actual_amount, expected_amount = _get_amount(cap_usage, amount_kind, name), round_up_to_unit(name, quantity)
            if actual_amount != expected_amount:
                actual_text = "no limit" if actual_amount is None else format_amount(name, actual_amount)
                yield Difference(f"{title}: {name} {amount_kind}", format_amount(name, expected_amount), actual_text)


def _is_expected(cap_usage: CapUsage, namespace: str) -> bool:
    """Return whether a ledger has the expected namespace; the ledger of a group has each of its members."""
    if cap_usage.active_cap.group:
        return namespace in cap_usage.members
    return cap_usage.namespace == namespace


def _get_amount(cap_usage: CapUsage, amount_kind: str, name: str) -> int | None:
    match amount_kind:
        case "used":
            return cap_usage.ledger.used.get(name, 0)
        case "reserved":
            return cap_usage.ledger.reserved.get(name, 0)
        case _:
            return cap_usage.get_free(name)


def _compare_node(expectation: ExpectedNode, node: PublishedNode) -> Iterator[Difference]:
    title = f"node {node.name}"
    for name, quantity in expectation.published.items():
        expected, actual = round_up_to_unit(name, quantity), node.amounts.get(name, 0)
        if actual != expected:
            yield Difference(f"{title}: {name} published", format_amount(name, expected), format_amount(name, actual))
    problems = expectation.problems
    if problems is not None and not (
        problems.keys() == node.problems.keys() and all(text in node.problems[name] for name, text in problems.items())
    ):
        yield Difference(f"{title}: problems", _format_values(problems), _format_values(node.problems))
