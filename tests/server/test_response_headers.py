"""Headers that granian must not get."""

import pytest

from tallygate.server.https.https_server import filter_headers

GOOD = [("Content-Type", "application/json"), ("X", ""), ("X-Y", "a\tb ~"), ("Allow", "GET, HEAD")]
BAD = {
    "a line end in a value": ("Location", "/a\r\nX: y"),
    "a letter beyond ASCII": ("Location", "/caf\u00e9"),
    "a null": ("X", "\0"),
    "a delete": ("X", "\x7f"),
    "an empty name": ("", "x"),
    "a blank in a name": ("a b", "x"),
    "a colon in a name": ("a:", "x"),
    "a line end after a name": ("a\n", "x"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_header_that_cannot_be_sent_is_left_out(case: str) -> None:
    assert filter_headers([*GOOD, BAD[case]]) == GOOD
