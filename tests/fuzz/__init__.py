"""Hostile bytes, guided by coverage (atheris), for a bounded time: `make fuzz SECONDS=300`.

Run by hand, in addition to the property tests. A target may return or raise its own error; anything else,
and anything slower than a second, is a finding, and its bytes are written to `.run/fuzz/`.
"""
