"""Quantities in JSON tokens, parsed as by the API server."""

import msgspec
import pytest

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import (
    FORMAT_WRONG,
    SUFFIX_WRONG,
    QuantityError,
    QuantityTooLargeError,
)

READ = (
    ("a number is read as its text", b"3", "3"),
    ("a number with a zero fraction is whole", b"3.0", "3"),
    ("a number with a fraction is thousandths", b"3.5", "3500m"),
    ("a number with an exponent keeps it", b"1e3", "1e3"),
    ("a capital exponent is kept", b"1E3", "1E3"),
    ("a negative number is read", b"-3", "-3"),
    ("minus zero is zero", b"-0", "0"),
    ("a half is thousandths", b"0.5", "500m"),
    ("a string is read", b'"3Ki"', "3Ki"),
    ("blanks around are trimmed", b'" 3 "', "3"),
    ("a Unicode blank is trimmed", '"\u2003\u00a03\u3000"'.encode(), "3"),
    ("null is zero", b"null", "0"),
    ("a large exponent is kept", b"1e400", "10e399"),
    ("a number beyond a float's digits is kept exactly", b"12345678901234567890", "12345678901234567890"),
    ("a plus in a string is kept", b'"+3"', "+3"),
)
REJECTED = (
    ("an escape is not decoded", rb'"3\u004bi"', FORMAT_WRONG),
    ("an escaped digit is not decoded", rb'"\u0033"', FORMAT_WRONG),
    ("an escaped tab is not a blank", rb'"\t3"', FORMAT_WRONG),
    ("an escaped line end is not a blank", rb'"3\n"', FORMAT_WRONG),
    ("an empty string is not a quantity", b'""', FORMAT_WRONG),
    ("a blank string is not a quantity", b'" "', FORMAT_WRONG),
    ("null in quotes is not a quantity", b'"null"', FORMAT_WRONG),
    ("true is not a quantity", b"true", FORMAT_WRONG),
    ("false is not a quantity", b"false", FORMAT_WRONG),
    ("an object is not a quantity", b"{}", FORMAT_WRONG),
    ("an empty list is not a quantity", b"[]", FORMAT_WRONG),
    ("a list is not a quantity", b"[3]", FORMAT_WRONG),
    ("hexadecimal is not a quantity", b'"0x10"', FORMAT_WRONG),
    ("a comma is not a quantity", b'"1,5"', FORMAT_WRONG),
    ("a wrong suffix has an error of its own", b'"1K"', SUFFIX_WRONG),
    ("a separator of files is not a blank to Go", b'"\x1c3"', FORMAT_WRONG),
    ("a byte order mark is not a blank", '"\ufeff3"'.encode(), FORMAT_WRONG),
    ("bytes that are not UTF-8 are not a quantity", b'"\xff3"', FORMAT_WRONG),
    ("half a surrogate is not a quantity", b'"\xed\xa0\x803"', FORMAT_WRONG),
    ("a lone quote is not a quantity", b'"', FORMAT_WRONG),
    ("an empty token is not a quantity", b"", FORMAT_WRONG),
)


@pytest.mark.parametrize(("token", "text"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_a_token_is_parsed(token: bytes, text: str) -> None:
    assert Quantity.from_json(token).text == text
    assert Quantity.from_json(msgspec.Raw(token)).text == text


@pytest.mark.parametrize(("token", "error"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED])
def test_an_invalid_token_has_kubernetes_error(token: bytes, error: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.from_json(token)
    assert str(caught.value) == error


def test_a_token_of_a_decoded_object_is_parsed() -> None:
    limits = msgspec.json.decode(b'{"a": "3Ki" , "b": 1.5}', type=dict[str, msgspec.Raw])
    assert {name: Quantity.from_json(raw).text for name, raw in limits.items()} == {"a": "3Ki", "b": "1500m"}


def test_a_token_of_a_megabyte_is_too_large() -> None:
    with pytest.raises(QuantityTooLargeError):
        Quantity.from_json(b'"' + b"9" * 1_000_000 + b'"')
