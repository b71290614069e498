"""What the commands of `tallygate certs` share: the folder, how a certificate is shown, how what goes wrong is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from certs.errors import CertsError
from certs.show import Facts
from webhook.cli.command import UsageError

FOLDER_ARGUMENT = click.argument("folder", type=click.Path(path_type=Path))


@contextmanager
def convert_errors() -> Iterator[None]:
    """What `certs` raises is for the person at the terminal."""
    try:
        yield
    except CertsError as error:
        raise UsageError(str(error)) from error


def format_facts(label: str, facts: Facts) -> tuple[str, str, str, str, str]:
    """As a row of a table."""
    names = ", ".join(facts.names) or facts.subject
    return label, names, f"{facts.not_after:%Y-%m-%d %H:%M}Z", str(facts.days_left), facts.fingerprint[:16]


def convert_facts(facts: Facts) -> dict[str, Any]:
    """For a program."""
    return {
        "subject": facts.subject,
        "issuer": facts.issuer,
        "names": list(facts.names),
        "notBefore": facts.not_before.isoformat(),
        "notAfter": facts.not_after.isoformat(),
        "daysLeft": facts.days_left,
        "fingerprint": facts.fingerprint,
    }
