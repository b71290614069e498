"""Whatever the policies and the cluster: the pages show what `usage -o json` prints and what the API answers."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from tests.agreement.drawn import CASES, DrawnCase
from tests.agreement.page_numbers import DrawnPages
from tests.effort import examples


@pytest.fixture(scope="module")
def pages() -> DrawnPages:
    """Return the pages over one cluster after the other."""
    return DrawnPages()


# at least 200 in `make test-slow`
@settings(max_examples=examples(700), deadline=None)
@given(case=CASES)
def test_pages_have_the_numbers_of_usage_and_of_asks(pages: DrawnPages, case: DrawnCase) -> None:
    with TemporaryDirectory() as folder:
        pages.compare(case, Path(folder))
