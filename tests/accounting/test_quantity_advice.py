"""Suggestions for a text that is not a quantity."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.validation.pods import validate_pod
from tallygate.accounting.validation.unreadable import suggest_quantities
from tallygate.objects.core import Pod

TABLE = (
    ("bytes are left off", "1GB", ("1G", "1Gi")),
    ("binary bytes too", "1GiB", ("1Gi",)),
    ("a capital K is either", "3K", ("3k", "3Ki")),
    ("a small g is either", "3g", ("3G", "3Gi")),
    ("a small ki is binary", "3ki", ("3Ki",)),
    ("capitals throughout are binary", "2MI", ("2Mi",)),
    ("a blank before the suffix is removed", "3 Ki", ("3Ki",)),
    ("bytes alone are removed", "100 bytes", ("100",)),
    ("one B is removed", "100B", ("100",)),
    ("thousands separators are removed", "1,000", ("1000",)),
    ("underscores are removed", "1_000_000", ("1000000",)),
    ("a decimal comma is a point", "1,5", ("1.5",)),
    ("a decimal comma before a suffix too", "1,5GB", ("1.5G", "1.5Gi")),
    ("a fraction stays", "0.5 GB", ("0.5G", "0.5Gi")),
    ("a minus stays", "-3GB", ("-3G", "-3Gi")),
    ("blanks in a number are removed", "10 000", ("10000",)),
    ("surrounding blanks are removed", " 3\n", ("3",)),
    ("a word has no suggestion", "one", ()),
    ("an empty text has no suggestion", "", ()),
    ("hexadecimal has no suggestion", "0x10", ()),
    ("two points have no suggestion", "1.2.3", ()),
    ("an unknown suffix has no suggestion", "3cores", ()),
    ("a number and half a suffix has no suggestion", "3gig", ()),
    ("an exponent's half is taken for exa", "1e", ("1E", "1Ei")),
    ("a long text has no suggestion", "1" * 65 + "GB", ()),
    ("other digits have no suggestion", "\u0663GB", ()),
)


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_text_has_suggestions(text: str, wanted: tuple[str, ...]) -> None:
    assert suggest_quantities(text) == wanted


@given(st.text("0123456789.,_ +-kKmMgGiIbBeE", max_size=12))
def test_every_suggestion_is_valid(text: str) -> None:
    for each in suggest_quantities(text):
        assert Quantity.parse(each).text


@pytest.mark.parametrize(
    ("token", "advice"),
    [('"1GB"', "did you mean 1G or 1Gi?"), ('"one"', "such as 2, 500m or 3Gi"), ("true", "such as 2, 500m or 3Gi")],
)
def test_the_problem_of_a_rejected_pod_has_suggestions(token: str, advice: str) -> None:
    spec = '{"spec":{"containers":[{"name":"a","resources":{"requests":{"memory":%s}}}]}}'
    (problem,) = validate_pod(msgspec.json.decode(spec % token, type=Pod))
    assert problem.message.endswith(advice)
