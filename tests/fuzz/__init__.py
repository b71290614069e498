"""Hostile bytes, guided by coverage (atheris), for a bounded time: `make fuzz SECONDS=300`.

Run by hand, beside the property tests that run always. A target may answer or refuse in its own words; anything else,
and anything slower than a second, is a finding, and its bytes are kept in `.run/fuzz/`.
"""
