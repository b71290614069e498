"""The parts of a release besides wheel and sdist (`tests.package`), step by step: `python -m tests.release STEP`.

The workflow release.yml and `make release-rehearsal` call the same steps. The workflow publishes what they make, and
signs it with its own identity; the rehearsal does both on this machine alone, with a key that it throws away.
"""
