"""docs/doctor.md says what the checks say."""

import re

from tests.cli.doctor.table import PAGE, rewritten
from webhook.cli.doctor.command import CHECKS
from webhook.cli.doctor.permissions import Feature


def test_the_table_of_checks_is_as_it_is_in_the_code() -> None:
    page = PAGE.read_text()
    assert rewritten(page) == page


def test_names_of_checks_are_good_for_programs_and_there_once() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_the_page_counts_as_many_checks_as_there_are() -> None:
    assert f"\n{len(CHECKS)} checks: " in PAGE.read_text()


def test_files_that_commands_name_are_there() -> None:
    for feature in Feature:
        assert (PAGE.parents[1] / feature.manifest_path).is_file()
