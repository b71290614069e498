"""ResourceQuotas: the API server's errors about their keys, values and scopes."""

from tallygate.accounting.validation.node_and_quota import validate_quota
from tallygate.objects.core import ResourceQuota
from tests.conformance.case import Case, Outcome
from tests.conformance.errors import compare_errors
from tests.conformance.sums import find_wrapping_names
from tests.conformance.typed_objects import decode_object


def compare(case: Case) -> Outcome:
    """Compare the errors."""
    problems, wrapping = validate_quota(decode_object(case["quota"], ResourceQuota)), find_wrapping_names(case["quota"])
    differences = compare_errors(case["answer"]["errors"], problems, wrapping)
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))
