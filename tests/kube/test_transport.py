"""Lines out of chunks, none longer than the limit."""

import pytest

from tallygate.kube.api_errors import ApiError
from tallygate.kube.transport import LineSplitter


def test_a_line_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert list(LineSplitter(4).feed(b"abcd\n\n \nef\n")) == [b"abcd", b"ef"]
    with pytest.raises(ApiError, match="more than 4 bytes"):
        list(LineSplitter(4).feed(b"abcde"))
