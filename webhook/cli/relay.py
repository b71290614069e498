"""The command `tallygate relay`: a second process beside a gate that retries admission reviews when a gate fails."""

import ipaddress
import os
from pathlib import Path
from typing import Any, Final

import click

from tallygate.webhook.cli.framework import Command
from tallygate.webhook.cli.server_options import server_options
from tallygate.webhook.server.lifecycle import exit_process
from tallygate.webhook.server.relay.failover import PeerService
from tallygate.webhook.server.relay.serve_relay import Upstreams
from tallygate.webhook.server.relay.serve_relay import serve_relay as run_relay
from tallygate.webhook.server.settings.sources import load_settings
from tallygate.webhook.server.settings.value_types import ADDRESS, Address

_SETTING_NAMES: Final = (
    "listen",
    "monitor",
    "tls_cert",
    "tls_key",
    "tls_min_version",
    "client_ca_file",
    "decision_timeout",
    "body_limit",
    "body_timeout",
    "idle_timeout",
    "connections",
    "threads",
    "drain_delay",
    "drain_timeout",
    "log_level",
)
_MAX_PORT: Final = 65535


def _parse_loopback_address(_: click.Context, __: click.Parameter, text: str) -> Address:
    try:
        address = ADDRESS.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not ipaddress.ip_address(address.host).is_loopback:
        raise click.BadParameter(
            f"{text!r} is not of this pod; its certificate would not be verified. Write 127.0.0.1:PORT here, and name "
            "peers by --peers"
        )
    return address


def _parse_peer_service(_: click.Context, __: click.Parameter, text: str | None) -> PeerService | None:
    if text is None:
        return None
    host, _colon, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) <= _MAX_PORT:
        raise click.BadParameter(f"{text!r} is not a name and a port, such as tallygate.tallygate-system.svc:443")
    return PeerService(host.removeprefix("[").removesuffix("]"), int(port))


@click.command(
    cls=Command,
    examples=(
        ("tallygate serve --listen 127.0.0.1:8444 --tls-cert tls.crt --tls-key tls.key", "a gate, reached by ..."),
        ("tallygate relay --tls-cert tls.crt --tls-key tls.key", "... a relay on port 8443"),
        (
            "tallygate relay --tls-cert tls.crt --tls-key tls.key"  # noqa: ISC004  one command
            " --peers tallygate.tallygate-system.svc:443 --peers-ca-file ca.crt",
            "... and another replica",
        ),
    ),
)
@click.option(
    "--upstream",
    metavar="IP:PORT",
    default="127.0.0.1:8444",
    show_default=True,
    callback=_parse_loopback_address,
    help="The address of the gate in the same pod, on the loopback interface. Its certificate is not verified.",
)
@click.option(
    "--peers",
    metavar="HOST:PORT",
    callback=_parse_peer_service,
    help="The address of the other replicas, such as that of the Service. Their certificate must have that name.",
)
@click.option(
    "--peers-ca-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The CAs of that certificate, PEM. It is read before each connection to a peer, so it may change.",
)
@server_options(_SETTING_NAMES)
def relay(
    config: Path | None, upstream: Address, peers: PeerService | None, peers_ca_file: Path | None, **flags: Any
) -> None:
    """Accept the API server's connections, and forward each review to a gate that answers.

    The API server sends a review again only if an answer asks for that: if a gate is killed during a review (by a
    memory limit, for example), no answer arrives, and a create fails. A relay in a container of its own sends the
    review to the gate in its pod; if that gate is unreachable, it sends the review to another replica, and retries both
    until the API server's timeout. It evaluates nothing, and needs no permission.

    It waits a minute for its certificate. Its settings are a part of those of `tallygate serve`.

    Exit codes: 0 stopped, 1 stopped before all requests were answered, 2 it could not start.
    """
    if (peers is None) != (peers_ca_file is None):
        raise click.UsageError("--peers and --peers-ca-file go together: a name, and the CAs of its certificate")
    settings = load_settings(flags, os.environ, config)
    peer = (peers, peers_ca_file) if peers and peers_ca_file else None
    exit_process(run_relay(settings, Upstreams(upstream, peer)))
