"""The commands of `tallygate certs`: issue and renew the certificates of the gate in a folder.

The module also defines the folder argument, the error conversion and the certificate rows for the cluster commands.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tallygate.answers.columns import Column, Columns
from tallygate.cli.framework import LazyCommand, LazyGroup, UsageError
from tallygate.cli.output.tables import FittedTable, create_table
from tallygate_certs.certificate_names import CertificateNames, create_service_names, parse_names
from tallygate_certs.certificate_status import CertificateFacts, inspect_certificates
from tallygate_certs.errors import CertsError
from tallygate_certs.renewal import issue as issue_certificates
from tallygate_certs.renewal import renew as renew_certificates

FOLDER_ARGUMENT = click.argument("folder", type=click.Path(path_type=Path))


@contextmanager
def convert_errors() -> Iterator[None]:
    """Convert the errors of `certs` to usage errors."""
    try:
        yield
    except CertsError as error:
        raise UsageError(str(error)) from error


_FACTS = Columns[CertificateFacts](
    Column("", "subject"),
    Column("", "issuer"),
    Column("NAMES", "names", lambda facts: list(facts.names), lambda facts: ", ".join(facts.names) or facts.subject),
    Column("", "notBefore", lambda facts: facts.not_before.isoformat()),
    Column(
        "UNTIL",
        "notAfter",
        lambda facts: facts.not_after.isoformat(),
        lambda facts: f"{facts.not_after:%Y-%m-%d %H:%M}Z",
    ),
    Column("DAYS LEFT", "daysLeft", lambda facts: facts.days_left),
    Column("SHA-256", "fingerprint", text=lambda facts: facts.fingerprint[:16]),
)


def create_certificate_table(authorities: Sequence[CertificateFacts], serving: CertificateFacts | None) -> FittedTable:
    """Return a table of the authorities and the serving certificate."""
    rows = [["authority", *cells] for cells in _FACTS.list_rows(authorities)]
    rows += [["serving", *cells] for cells in _FACTS.list_rows([serving] if serving else [])]
    return create_table(("WHAT", *_FACTS.headings), rows)


def convert_certificates(authorities: Sequence[CertificateFacts], serving: CertificateFacts | None) -> dict[str, Any]:
    """Return the authorities and the serving certificate as plain data."""
    return {
        "authorities": list(map(_FACTS.to_dict, authorities)),
        "serving": _FACTS.to_dict(serving) if serving else None,
    }


@click.group(
    cls=LazyGroup,
    modules={
        "publish": LazyCommand("tallygate.cli.certs.cluster_commands", "Let the cluster's API server trust them."),
        "status": LazyCommand(
            "tallygate.cli.certs.cluster_commands", "Show the certificates in a folder, or of a gate in its cluster."
        ),
    },
    examples=(
        ("tallygate certs issue tls/ --service tallygate-system/tallygate", "an authority and a certificate"),
        ("tallygate certs status tls/", "what is there, and how long it lasts"),
        ("tallygate certs renew tls/", "renew certificates that are due; run it daily"),
        ("tallygate certs publish tls/", "let the cluster's API server trust them"),
        ("tallygate certs status", "what a gate keeps in its cluster by itself"),
    ),
)
def certs() -> None:
    """Manage the serving certificates of the gate, without any other tool.

    A folder has ca.crt (publish it to the API server), ca.key (do not store it in the cluster), tls.crt and tls.key
    (the gate serves with them, and reloads new ones without a restart). A gate with --tls-secret does all of this
    itself.
    """


@certs.command(
    short_help="Issue a certificate, and its CA if it is missing.",
    examples=(
        ("tallygate certs issue tls/ --service tallygate-system/tallygate", "for a Service in a cluster"),
        ("tallygate certs issue tls/ --name localhost --name 127.0.0.1", "for this machine"),
    ),
)
@FOLDER_ARGUMENT
@click.option("--service", metavar="NAMESPACE/NAME", multiple=True, help="A Service: all its names in the cluster.")
@click.option("--name", metavar="NAME", multiple=True, help="A DNS name or an IP address.")
def issue(folder: Path, service: tuple[str, ...], name: tuple[str, ...]) -> None:
    """Issue a serving certificate in FOLDER for these names; it replaces an existing one.

    The CA of the folder signs it. The command creates a missing CA and keeps an existing one, so that clients that
    trust the CA also trust the new certificate.
    """
    with convert_errors():
        names = _combine_names(service, name)
        issue_certificates(folder, names, datetime.now(UTC))
        overview = inspect_certificates(folder, datetime.now(UTC))
    lasts = f", good until {overview.serving.not_after:%Y-%m-%d}" if overview.serving else ""
    click.echo(f"{folder / 'tls.crt'}: for {', '.join(names.to_texts())}{lasts}; trust {folder / 'ca.crt'}")


@certs.command(
    short_help="Renew certificates that are due.",
    examples=(
        ("tallygate certs renew tls/", "renew certificates that are due, and print the result"),
        ("tallygate certs renew tls/ --force", "make a new serving certificate at once, after a key has leaked, say"),
    ),
)
@FOLDER_ARGUMENT
@click.option("--force", is_flag=True, help="Issue a new serving certificate even if none is due.")
def renew(folder: Path, *, force: bool) -> None:
    """Renew the certificates of FOLDER that are due: the certificate in its last month, the authority in its last year.

    A new authority signs only after a day, and the old one stays trusted for the remaining lifetime of its
    certificates. Publish ca.crt within that day, so that every client trusts every certificate.
    """
    with convert_errors():
        actions = renew_certificates(folder, datetime.now(UTC), force=force).actions
    for line in actions or ("nothing is due",):
        click.echo(f"{folder}: {line}")


def _combine_names(services: tuple[str, ...], names: tuple[str, ...]) -> CertificateNames:
    parts = [_parse_service(service) for service in services]
    if names or not parts:
        parts.append(parse_names(names))
    combined = parts[0]
    for part in parts[1:]:
        combined += part
    return combined


def _parse_service(text: str) -> CertificateNames:
    namespace, slash, name = text.partition("/")
    if not slash:
        raise UsageError(f"--service {text}: write NAMESPACE/NAME, as in tallygate-system/tallygate")
    return create_service_names(name, namespace)
