"""ResourceQuotas: what the API server says of their keys, values and scopes."""

from tests.conformance.case import Case, Outcome
from tests.conformance.errors import compare_errors
from tests.conformance.sums import wrapping_names
from tests.conformance.typed import typed
from webhook.accounting.validation.node_and_quota import validate_quota
from webhook.objects.core import ResourceQuota


def compare(case: Case) -> Outcome:
    """Compare the errors."""
    problems, wrapping = validate_quota(typed(case["quota"], ResourceQuota)), wrapping_names(case["quota"])
    differences = compare_errors(case["answer"]["errors"], problems, wrapping)
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))
