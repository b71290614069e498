"""A relay without the command line: `python -m tests.server.relaying.real --gate IP:PORT [--FLAG VALUE …]`."""

import sys
from pathlib import Path

from tests.server.tiny import flags_of
from webhook.server.life import leave
from webhook.server.relay import Gates, relay
from webhook.server.relaying.ports import Service
from webhook.server.settings.kinds import ADDRESS
from webhook.server.settings.sources import load_settings

if __name__ == "__main__":
    flags = flags_of(sys.argv[1:])
    gate = ADDRESS.read(flags.pop("gate"))
    others, authorities = flags.pop("others", None), flags.pop("others_ca", None)
    named = (Service("localhost", int(str(others))), Path(str(authorities))) if others else None
    leave(relay(load_settings(flags, {}), Gates(gate, named)))
