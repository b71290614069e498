"""The page about versions has the rules that the code has."""

from tests.accounting.versions_page import PAGE, update_tables


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert page == update_tables(page), "run python -m tests.accounting.versions_page"
