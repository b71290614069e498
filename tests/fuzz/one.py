"""One target under atheris: `python -m tests.fuzz.one TARGET [libFuzzer options]`.

Without TARGET where FUZZ_TARGET names it, as in the scripts that .clusterfuzzlite/build.sh writes.
"""

import os
import sys

import atheris

with atheris.instrument_imports(include=["tallygate"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name = os.environ.get("FUZZ_TARGET") or sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()
