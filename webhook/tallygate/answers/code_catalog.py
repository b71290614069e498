"""The catalogue of all codes: `codes.yaml` has their texts, and is read when one of them is needed.

TG0xx: Kubernetes reports it, or should; TG1xx: rules; TG2xx: caps; TG3xx: policy files. A code TG4xx marks a file that
cannot be checked, or that does not mean the same as its text suggests.
"""

import difflib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from tallygate.errors import TallygateError


class Code(NamedTuple):
    """A kind of problem: a stable number and every text that `tallygate explain` prints for it.

    `slug` is its name in messages and docs (`not-whole`), `summary` one sentence, `explanation` the reason for the
    rejection, `invalid_example` and `valid_example` a manifest fragment each.
    """

    number: str
    slug: str
    summary: str
    explanation: str
    invalid_example: str
    valid_example: str


@cache
def list_codes() -> tuple[Code, ...]:
    """Return all codes, by their unique number."""
    text = files("tallygate.answers").joinpath("codes.yaml").read_text(encoding="utf-8")
    texts_by_number = msgspec.yaml.decode(text, type=dict[str, dict[str, str]])
    return tuple(Code(number, **texts) for number, texts in texts_by_number.items())


class UnknownCodeError(TallygateError):
    """A code that does not exist."""


def get_code(number: str) -> Code:
    """Return the code with the number of a finding."""
    return next(code for code in list_codes() if code.number == number)


def find_codes(text: str) -> tuple[Code, ...]:
    """Return the codes of a number or a name in any case; a code of Kubernetes and one of tallygate may share a name.

    Raises:
        UnknownCodeError: if no code matches; the text names similar ones.
    """
    codes = tuple(code for code in list_codes() if text.upper() == code.number or text.lower() == code.slug)
    if codes:
        return codes
    names = [*(code.number for code in list_codes()), *(code.slug for code in list_codes())]
    similar = difflib.get_close_matches(text, names, n=len(names)) or difflib.get_close_matches(
        text.upper(), names, n=len(names)
    )
    close_matches = sorted(similar, key=lambda name: -sum(map(str.__eq__, name, text.upper())))[:2]
    hint = f"; did you mean {' or '.join(close_matches)}?" if close_matches else ";"
    raise UnknownCodeError(f"there is no code {text!r}{hint} `tallygate explain` lists them all")
