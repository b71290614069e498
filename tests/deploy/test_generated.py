"""The generated files of deploy/ agree with the code."""

from pathlib import Path

import pytest
import yaml

from tallygate.admission.webhook_configuration import ServiceTarget
from tests.admission.plain_configurations import create_plain_configurations
from tests.deploy.generate import BASE, COMPONENTS, ROOT, generate_files


@pytest.mark.parametrize("path", generate_files(), ids=lambda path: path.name)
def test_a_generated_file_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generate_files()[path], "python -m tests.deploy.generate writes it"


def test_the_webhooks_are_those_of_a_service() -> None:
    path = COMPONENTS / "full-registration" / "webhooks.yaml"
    written = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    assert [each["webhooks"] for each in written] == [
        each["webhooks"] for each in create_plain_configurations(ServiceTarget())
    ]


def test_the_policies_are_the_shipped_ones() -> None:
    written, shipped = (
        list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        for path in (BASE / "policies" / "default.yaml", ROOT / "policies" / "default.yaml")
    )
    assert written == shipped
