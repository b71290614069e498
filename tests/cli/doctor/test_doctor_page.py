"""docs/operate/doctor.md agrees with the checks."""

import re

from tallygate.cli.doctor.command import CHECKS
from tallygate.cli.doctor.permissions import Feature
from tests.cli.doctor.check_table import PAGE, REPOSITORY, update_table


def test_the_table_of_checks_is_current() -> None:
    page = PAGE.read_text()
    assert update_table(page) == page


def test_names_of_checks_are_unique_identifiers() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_the_page_states_the_number_of_checks() -> None:
    assert f"\n{len(CHECKS)} checks: " in PAGE.read_text()


def test_files_of_fix_commands_exist() -> None:
    for feature in Feature:
        assert (REPOSITORY / feature.manifest_path).is_file()
