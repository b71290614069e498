"""One target under atheris: `python -m tests.fuzz.one TARGET [libFuzzer options]`."""

import sys

import atheris

with atheris.instrument_imports(include=["tallygate"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()
