"""A problem: one finding, as data.

Rules yield problems; nobody raises them. Whoever answers sorts them by path and shows them all.

How Kubernetes prints paths and offending values.

Source: apimachinery pkg/util/validation/field/path.go and errors.go (ErrorBody), v1.36.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why a field is refused, in the words of `status.details.causes[].reason` (apimachinery field.ErrorType)."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of problem: a stable number and everything `tallygate explain` says about it.

    `slug` is its name in messages and docs (`not-whole`), `what` one sentence, `why` the reason it is refused,
    `fails` and `passes` a manifest fragment each.
    """

    number: str
    slug: str
    summary: str
    explanation: str
    invalid_example: str
    valid_example: str


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding about one field.

    `field` is the path as Kubernetes prints it; `code` the number of a `Code`; `message` what is wrong, why and what
    would pass, without path, code or rule; `detail` the same in Kubernetes' own words where it has any, else empty;
    `value` the offending value as Kubernetes would print it; `rule` the rule or cap that found it (`by` says which of
    the two), empty for Kubernetes' own validation.
    """

    field: str
    code: str
    reason: Reason
    message: str
    detail: str = ""
    value: str = ""
    rule: str = ""
    policy_kind: str = "rule"

    @property
    def origin(self) -> str:
        """What to look up: the code, and the rule or cap."""
        return f"{self.code}, {self.policy_kind} {self.rule}" if self.rule else self.code

    def __str__(self) -> str:
        """The sentence for a person: path, message, and in brackets what to look up."""
        return f"{self.field}: {self.message} ({self.origin})" if self.field else f"{self.message} ({self.origin})"


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
