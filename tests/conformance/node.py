"""Nodes: the API server's errors about their resources."""

from tallygate.accounting.validation.node_and_quota import validate_node
from tallygate.objects.core import Node
from tests.conformance.case import Case, Outcome
from tests.conformance.errors import compare_errors
from tests.conformance.sums import find_wrapping_names
from tests.conformance.typed_objects import decode_object


def compare(case: Case) -> Outcome:
    """Compare the errors of a create; the errors of an update are about its resourceVersion."""
    problems, wrapping = validate_node(decode_object(case["node"], Node)), find_wrapping_names(case["node"])
    differences = compare_errors(case["answer"]["errors"], problems, wrapping)
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))
