"""The command `tallygate relay`: a second process beside a gate that retries admission reviews when a gate fails."""

import ipaddress
import os
from pathlib import Path
from typing import Any, Final

import click

from webhook.cli.framework import Command
from webhook.cli.server_options import server_options
from webhook.server.lifecycle import exit_process
from webhook.server.relay.failover import PeerService
from webhook.server.relay.serve_relay import Upstreams
from webhook.server.relay.serve_relay import serve_relay as run_relay
from webhook.server.settings.sources import load_settings
from webhook.server.settings.value_types import ADDRESS, Address

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
            "others by --others"
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
            " --others tallygate.tallygate-system.svc:443 --others-ca ca.crt",
            "... and another replica",
        ),
    ),
)
@click.option(
    "--gate",
    metavar="IP:PORT",
    default="127.0.0.1:8444",
    show_default=True,
    callback=_parse_loopback_address,
    help="The gate beside the relay, on the loopback interface. Its certificate is not verified.",
)
@click.option(
    "--others",
    metavar="HOST:PORT",
    callback=_parse_peer_service,
    help="Where another replica answers, such as the Service. Its certificate must be for that name.",
)
@click.option(
    "--others-ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The authorities of that certificate, PEM. Read when another is asked, so it may come later, and may change.",
)
@server_options(_SETTING_NAMES)
def relay(config: Path | None, gate: Address, others: PeerService | None, others_ca: Path | None, **flags: Any) -> None:
    """Hold the API server's connections, and pass each review on to a gate that lives.

    The API server sends no review twice: when a gate is killed while it is asked (for want of memory, say), a create
    fails. A relay in a container of its own asks the gate beside it; when that one is silent it asks another replica,
    and both again, until the API server's own time is over. It judges nothing, and needs no right.

    It waits a minute for its certificate to be there. Settings are those of `tallygate serve`, as far as they are its
    own.

    Exit codes: 0 stopped, 1 stopped but requests had to be given up, 2 it could not start.
    """
    if (others is None) != (others_ca is None):
        raise click.UsageError("--others and --others-ca go together: a name, and who vouches for it")
    settings = load_settings(flags, os.environ, config)
    peer = (others, others_ca) if others and others_ca else None
    exit_process(run_relay(settings, Upstreams(gate, peer)))
