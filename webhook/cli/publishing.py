"""`tallygate certs publish`: let an API server trust the gate. A module apart, since the client is slow to load."""

from datetime import UTC, datetime
from pathlib import Path

import click

from certs.cluster import Source, connect
from certs.publish import bundle
from certs.publish import publish as publish_bundle
from webhook.admission.webhook_configuration import CONFIGURATION_NAME
from webhook.cli.certificate_options import FOLDER_ARGUMENT, convert_errors
from webhook.cli.cluster.options import connection_options, require_one_source
from webhook.cli.command import Command


@click.command(
    cls=Command,
    examples=(
        ("tallygate certs publish tls/", "in the cluster of your kubeconfig"),
        ("tallygate certs publish tls/ --kubeconfig admin.conf --context prod", "in another"),
    ),
)
@FOLDER_ARGUMENT
@click.option(
    "--name", metavar="NAME", default=CONFIGURATION_NAME, show_default=True, help="The webhook configurations' name."
)
@connection_options
def publish(folder: Path, name: str, kubeconfig: Path | None, context: str | None, *, in_cluster: bool) -> None:
    """Write the authorities in ca.crt of FOLDER into the gate's webhook configurations, as caBundle of every webhook.

    Both configurations, mutating and validating, are read, and written only where they differ; one of them may be
    missing. It refuses when tls.crt in FOLDER is not valid by these authorities. Do it after `issue`, and after a
    `renew` that has made a new authority. Needed rights: get and patch on both kinds.

    Exit codes: 0 published, or nothing to do; 2 it could not be done.
    """
    require_one_source(kubeconfig, context, in_cluster=in_cluster)
    with convert_errors():
        ca_bundle = bundle(folder, datetime.now(UTC))
        for result in publish_bundle(connect(Source(kubeconfig, context, in_cluster)), name, ca_bundle):
            click.echo(f"{result.kind} {result.name}: {result.outcome}")
