"""The gate's answers for users who may not list what a command reads; a line on stderr says so."""

import click

from tallygate.cli.ask.gate_address import NoGateError, create_gate_options
from tallygate.cli.ask.gate_client import GateClient, GateError, open_gate
from tallygate.cli.connection import Connection
from tallygate.cli.framework import UsageError
from tallygate.cli.sources.resource_lists import ListError
from tallygate.kube.api_errors import ApiErrorReason


def is_forbidden(error: ListError) -> bool:
    """Return whether a list failed since the user may not list the resource."""
    return error.cause.reason is ApiErrorReason.FORBIDDEN


def open_gate_instead(connection: Connection, error: ListError) -> GateClient:
    """Return a client of the server of asks after the error of a list.

    Raises:
        UsageError: with the error and the reason, if no gate can be asked.
    """
    try:
        return open_gate(connection, create_gate_options())
    except (NoGateError, GateError) as reason:
        raise UsageError(f"{error}\nthe gate could answer without this right, and cannot be asked: {reason}") from error


def announce(gate: GateClient, what: str) -> None:
    """Print on stderr that the gate answers; `what` is the subject in words."""
    click.echo(f"tallygate: you may not read the whole cluster: the gate answers {what}, at {gate.url}", err=True)


def create_no_gate_error(error: ListError, advice: str) -> UsageError:
    """Return the error of a list with a line on what needs no such right, if the user may not list the resource."""
    return UsageError(f"{error}\n{advice}" if is_forbidden(error) else f"{error}")
