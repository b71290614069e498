"""`tallygate certs status`: the certificates that a gate keeps in a Secret. Apart, since the client is slow to load."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from certs.cluster import Source, connect
from certs.in_cluster import InCluster
from certs.status import Status, status_of
from webhook.admission.registration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from webhook.cli.certificate_options import facts_data, facts_row, saying
from webhook.cli.cluster.options import connection_options, only_one
from webhook.cli.command import EXIT_FINDINGS, Command, Misuse
from webhook.cli.report import write
from webhook.cli.report.table import table

_SECRET = f"{DEFAULT_NAMESPACE}/{CONFIGURATION_NAME}-tls"


@click.command(
    cls=Command,
    examples=(
        ("tallygate certs status", "in the cluster of your kubeconfig"),
        ("tallygate certs status --secret team-a/gate-tls -o json", "of another Secret, for a program"),
    ),
)
@click.option("--secret", metavar="NAMESPACE/NAME", default=_SECRET, show_default=True, help="The gate's tls_secret.")
@click.option("--name", metavar="NAME", default=CONFIGURATION_NAME, show_default=True, help="The webhook configurations' name.")
@click.option("-o", "--output", type=click.Choice(write.DATA_FORMATS), default="table", help="How to print it.")
@connection_options
@click.pass_context
def status(  # noqa: PLR0913, PLR0917  # each is an option
    ctx: click.Context,
    secret: str,
    name: str,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    *,
    in_cluster: bool,
) -> None:
    """Show what the Secret of `serve --tls-secret` holds, whether API servers are told to trust it, and what goes on.

    Nothing is written, and no key is shown. Needed rights: get on the Secret and on both webhook configurations.

    Exit codes: 0 all is well, 1 something is wrong, 2 it cannot be read.
    """
    only_one(kubeconfig, context, in_cluster=in_cluster)
    namespace, slash, secret_name = secret.partition("/")
    if not (namespace and slash and secret_name) or "/" in secret_name:
        raise Misuse(f"--secret {secret}: write NAMESPACE/NAME, as in {_SECRET}")
    with saying():
        cluster = InCluster(connect(Source(kubeconfig, context, in_cluster)), (namespace, secret_name), name)
        registered, stored = cluster.registered(), cluster.stored()
    found = status_of(stored.kept if stored else None, registered, datetime.now(UTC))
    if output == "table":
        write.show(_page(found))
    else:
        write.show_data(_data(found), output)
    ctx.exit(EXIT_FINDINGS if found.problems else 0)


def _page(found: Status) -> RenderableType:
    rows = [facts_row("authority", facts) for facts in found.authorities]
    rows += [facts_row("serving", found.leaf)] if found.leaf else []
    trust = [Text(f"{each.kind}: {each.webhooks} webhooks, {_trusting(each.is_right)}") for each in found.trust]
    said = [Text(text, "yellow") for text in found.going_on] + [Text(text, "bold red") for text in found.problems]
    none = [] if found.trust else [Text("no webhook configuration is there: nobody calls the gate")]
    return Lines(table(("WHAT", "NAMES", "UNTIL", "DAYS LEFT", "SHA-256"), rows), *trust, *none, *said)


def _trusting(is_right: bool) -> str:  # noqa: FBT001  # a word for it
    return "caBundle is what ca.crt says" if is_right else "caBundle is not what ca.crt says"


def _data(found: Status) -> dict[str, Any]:
    return {
        "authorities": [facts_data(facts) for facts in found.authorities],
        "serving": facts_data(found.leaf) if found.leaf else None,
        "registered": [
            {"kind": each.kind, "webhooks": each.webhooks, "trustsExactly": each.is_right} for each in found.trust
        ],
        "goingOn": list(found.going_on),
        "problems": list(found.problems),
    }
