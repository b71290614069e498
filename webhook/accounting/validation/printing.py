"""How Kubernetes prints paths and offending values.

Source: apimachinery pkg/util/validation/field/path.go and errors.go (ErrorBody), v1.36.
"""

import json
from typing import Any

from webhook.accounting.problem import Problem, Reason

# encoding/json writes these as escapes, so that JSON may stand inside HTML.
_GO_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_REASON_TEXTS = {
    Reason.INVALID: "Invalid value",
    Reason.REQUIRED: "Required value",
    Reason.FORBIDDEN: "Forbidden",
    Reason.NOT_SUPPORTED: "Unsupported value",
    Reason.DUPLICATE: "Duplicate value",
    Reason.NOT_FOUND: "Not found",
}


def encode_go_json(value: Any) -> str:
    """A value as JSON, the way Go writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)


def format_cause_message(problem: Problem) -> str:
    """What Kubernetes would put into `status.details.causes[].message` for one of its own problems."""
    parts = (_REASON_TEXTS[problem.reason], problem.value, problem.detail)
    return ": ".join(part for part in parts if part)
