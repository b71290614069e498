"""A relay without the command line: `python -m tests.server.relaying.real --gate IP:PORT [--FLAG VALUE …]`."""

import sys
from pathlib import Path

from tests.server.tiny import flags_of
from webhook.server.life import exit_process
from webhook.server.relay import Upstreams, serve_relay
from webhook.server.relaying.ports import PeerService
from webhook.server.settings.kinds import ADDRESS
from webhook.server.settings.sources import load_settings

if __name__ == "__main__":
    flags = flags_of(sys.argv[1:])
    gate = ADDRESS.parse(flags.pop("gate"))
    others, authorities = flags.pop("others", None), flags.pop("others_ca", None)
    named = (PeerService("localhost", int(str(others))), Path(str(authorities))) if others else None
    exit_process(serve_relay(load_settings(flags, {}), Upstreams(gate, named)))
