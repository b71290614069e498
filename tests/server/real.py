"""The real server with the real gate, without the command line: `python -m tests.server.real [--FLAG VALUE …]`."""

import sys

from tests.server.tiny import flags_of
from webhook.server.lifecycle import exit_process
from webhook.server.serve import serve
from webhook.server.settings.sources import load_settings

if __name__ == "__main__":
    exit_process(serve(load_settings(flags_of(sys.argv[1:]), {})))
