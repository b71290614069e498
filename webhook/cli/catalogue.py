"""The catalogue: every code that tallygate can say, from the rooms that say them."""

import difflib

from webhook.accounting import kubernetes_codes as accounting
from webhook.accounting.problem import Code
from webhook.admission import rule_codes as admission
from webhook.cli import codes as manifests
from webhook.errors import TallygateError
from webhook.policy import policy_codes as policy

ALL_CODES: tuple[Code, ...] = tuple(
    sorted(
        (*accounting.CODES, *admission.CODES, *policy.CODES, *manifests.MANIFEST_CODES),
        key=lambda code: code.number,
    )
)
"""By number, which no two share."""

_CODES_BY_NUMBER = {code.number: code for code in ALL_CODES}


class UnknownCodeError(TallygateError):
    """A code that tallygate never says."""


def get_code(number: str) -> Code:
    """The code with this number, which a finding carries."""
    return _CODES_BY_NUMBER[number]


def find_codes(text: str) -> tuple[Code, ...]:
    """The codes that a person means: by number in any case, or by a name, which Kubernetes' rules and ours may share.

    Raises:
        NoSuchCodeError: there is none; the text says which come near.
    """
    codes = tuple(code for code in ALL_CODES if text.upper() == code.number or text.lower() == code.slug)
    if codes:
        return codes
    names = [*_CODES_BY_NUMBER, *(code.slug for code in ALL_CODES)]
    close_matches = difflib.get_close_matches(text, names, n=2) or difflib.get_close_matches(text.upper(), names, n=2)
    hint = f"; did you mean {' or '.join(close_matches)}?" if close_matches else ";"
    raise UnknownCodeError(f"there is no code {text!r}{hint} `tallygate explain` lists them all")
