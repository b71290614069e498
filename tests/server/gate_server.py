"""A server with the real gate, without the command line: `python -m tests.server.gate_server [--FLAG VALUE …]`."""

import sys

from tallygate.server.lifecycle import exit_process
from tallygate.server.serve import serve
from tallygate.server.settings.sources import load_settings
from tests.server.tiny import parse_flags

if __name__ == "__main__":
    exit_process(serve(load_settings(parse_flags(sys.argv[1:]), {})))
