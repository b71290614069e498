"""A relay without the command line: `python -m tests.server.relay.real --upstream IP:PORT [--FLAG VALUE …]`."""

import sys
from pathlib import Path

from tests.server.tiny import flags_of
from webhook.server.lifecycle import exit_process
from webhook.server.relay.failover import PeerService
from webhook.server.relay.serve_relay import Upstreams, serve_relay
from webhook.server.settings.sources import load_settings
from webhook.server.settings.value_types import ADDRESS

if __name__ == "__main__":
    flags = flags_of(sys.argv[1:])
    gate = ADDRESS.parse(flags.pop("upstream"))
    others, authorities = flags.pop("peers", None), flags.pop("peers_ca_file", None)
    named = (PeerService("localhost", int(str(others))), Path(str(authorities))) if others else None
    exit_process(serve_relay(load_settings(flags, {}), Upstreams(gate, named)))
