"""Problems as data, and their paths and values as Kubernetes prints them.

Rules yield problems and never raise them. The caller sorts them by path and shows all of them.

Source: apimachinery pkg/util/validation/field/path.go and errors.go (ErrorBody), v1.36.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """The reason of a rejected field, as in `status.details.causes[].reason` (apimachinery field.ErrorType)."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"


BUILT_IN_CHECK = "check"
"""The kind of a problem that no policy reports."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem of one field.

    `field` is the path as Kubernetes prints it; `code` is a number such as TG101. `message` contains the fault, the
    reason and a valid form, without path, code or rule. `detail` is the same in Kubernetes' own words where it has any,
    else empty. `value` is the invalid value as Kubernetes would print it. `rule` is the name of the rule or cap that
    reports the problem, empty for Kubernetes' own validation; `policy_kind` distinguishes rules, caps and checks
    without a policy (`BUILT_IN_CHECK`).
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
        """The code, and the rule or cap, for a reader to look up."""
        return f"{self.code}, {self.policy_kind} {self.rule}" if self.rule else self.code

    def __str__(self) -> str:
        return f"{self.field}: {self.message} ({self.origin})" if self.field else f"{self.message} ({self.origin})"


# encoding/json writes these as escapes, so that HTML may contain the JSON.
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
    """Return a value as JSON, as Go writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)


def format_cause_message(problem: Problem) -> str:
    """Return the text that Kubernetes writes to `status.details.causes[].message` for a problem of its own."""
    parts = (_REASON_TEXTS[problem.reason], problem.value, problem.detail)
    return ": ".join(part for part in parts if part)
