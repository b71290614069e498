"""Nodes: what the API server says of their resources."""

from tests.conformance.case import Case, Outcome
from tests.conformance.errors import compare_errors
from tests.conformance.sums import wrapping_names
from tests.conformance.typed import typed
from webhook.accounting.validation.node_and_quota import validate_node
from webhook.objects.core import Node


def compare(case: Case) -> Outcome:
    """Compare the errors of a create; those of an update are about its resourceVersion."""
    problems, wrapping = validate_node(typed(case["node"], Node)), wrapping_names(case["node"])
    differences = compare_errors(case["answer"]["errors"], problems, wrapping)
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))
