"""The command `tallygate page`: the pages of the gate in a browser of this machine, with a kubeconfig's credentials."""

import webbrowser
from http import HTTPStatus

import click

from tallygate.cli import framework
from tallygate.cli.ask.gate_address import GateOptions, gate_options
from tallygate.cli.ask.gate_client import GateClient, GateError, open_gate
from tallygate.cli.ask.page_proxy import PAGES_PATH, PageServer
from tallygate.cli.connection import Connection

_MAX_PORT = 65535


@click.command(
    cls=framework.Command,
    examples=(
        ("tallygate page", "print an address for the browser, until Ctrl-C"),
        ("tallygate page --open", "and open it"),
    ),
)
@framework.connection_options
@gate_options
@click.option("--port", type=click.IntRange(0, _MAX_PORT), default=0, help="The port on loopback. Default: a free one.")
@click.option("--open", "opens", is_flag=True, help="Open the address in the browser of this machine.")
def page(connection: Connection, address: GateOptions, port: int, *, opens: bool) -> None:
    """Show the pages of the gate in a browser on this machine, as the user of the kubeconfig, until Ctrl-C.

    The command serves them on loopback, and gets each from the gate with the credentials of the kubeconfig, as
    `tallygate ask` does. The printed address works once, and gives the browser a cookie, which ends with the command;
    the browser never gets a token. The server of asks must serve pages (`tallygate serve-ask --page on`).

    The address is a name under localhost, which browsers resolve to this machine; other machines cannot reach it.

    Exit codes: 0 stopped by Ctrl-C, 2 a usage error, or the gate does not answer or has no pages.
    """
    gate = open_gate(connection, address)
    _check_pages(gate)
    try:
        server = PageServer(port, gate.forward)
    except OSError as error:
        raise framework.UsageError(f"--port {port}: {error.strerror or error}") from None
    with server:
        start_url = server.proxy.start_url
        click.echo(start_url)
        click.echo("open this address in a browser; it works once. Ctrl-C stops the command", err=True)
        if opens:
            webbrowser.open(start_url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


def _check_pages(gate: GateClient) -> None:
    """Check that the gate has pages, and knows the user.

    Raises:
        GateError: if it does not.
    """
    status = gate.forward("GET", f"{PAGES_PATH}ask", {}).status
    if status == HTTPStatus.NOT_FOUND:
        raise GateError(f"{gate.url} has no pages: its server of asks runs without --page on", status)
    if status == HTTPStatus.UNAUTHORIZED:
        raise GateError(f"{gate.url} does not accept the credentials of the kubeconfig", status)
