"""A program with other times of requests: `python -m tests.server.timed_program MODULE TIMES [ARGUMENT …]`.

TIMES is a mapping in JSON, of fields of `RequestTimes` to seconds.
"""

import json
import runpy
import sys
from dataclasses import replace
from unittest.mock import patch

from tallygate.server import lifecycle

if __name__ == "__main__":
    module, times, *sys.argv[1:] = sys.argv[1:]
    changed = replace(lifecycle.REQUEST_TIMES, **json.loads(times))
    with patch.object(lifecycle, "REQUEST_TIMES", changed):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
