"""The output of `-o junit` is XML for all names and messages."""

from pathlib import Path
from xml.etree import ElementTree as ET

from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallygate.cli.app import root
from tests.effort import examples

SCENARIO = """\
name: %s
steps:
  - create: {pod: a}
  - delete: {pod: b}
"""


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=20, alphabet=st.characters(codec="utf-8")))
def test_every_name_is_valid_in_xml(tmp_path: Path, name: str) -> None:
    """Keep the name, except for characters that XML does not allow."""
    escaped = "".join(f"\\U{ord(each):08x}" for each in name)
    (tmp_path / "a.yaml").write_text(SCENARIO % f'"{escaped}"')
    result = CliRunner().invoke(root, ["test", "-o", "junit", str(tmp_path)])
    assert result.exit_code == 1, result.output
    suites = ET.fromstring(result.stdout.encode())  # noqa: S314 -- what our own command has written
    (case,) = suites.iter("testcase")
    if name.isascii() and name.isprintable():
        assert case.attrib["name"] == name
    (failure,) = case
    assert failure.attrib["message"].splitlines()[1].startswith("expected verdict allowed; happened: denied by the API")
    assert (suites.attrib["tests"], suites.attrib["failures"]) == ("1", "1")
