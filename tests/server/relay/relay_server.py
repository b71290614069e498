"""A relay without the command line: `python -m tests.server.relay.relay_server --upstream IP:PORT [--FLAG VALUE …]`."""

import sys
from pathlib import Path

from tallygate.webhook.server.lifecycle import exit_process
from tallygate.webhook.server.relay.failover import PeerService
from tallygate.webhook.server.relay.serve_relay import Upstreams, serve_relay
from tallygate.webhook.server.settings.sources import load_settings
from tallygate.webhook.server.settings.value_types import ADDRESS
from tests.server.tiny import parse_flags

if __name__ == "__main__":
    flags = parse_flags(sys.argv[1:])
    upstream = ADDRESS.parse(flags.pop("upstream"))
    peer_port, ca_file = flags.pop("peers", None), flags.pop("peers_ca_file", None)
    peers = (PeerService("localhost", int(str(peer_port))), Path(str(ca_file))) if peer_port else None
    exit_process(serve_relay(load_settings(flags, {}), Upstreams(upstream, peers)))
