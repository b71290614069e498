"""Exact accounting of what Kubernetes counts.

The rule of this room: pure functions and values over `webhook.objects`; the standard library and msgspec's raw JSON
only (numpy in `cluster` and `fit`), no I/O, no clock, no logging. Python ints throughout: no float, no Decimal context,
but for the scores by which the scheduler likes one node better than another.
Kubernetes' own code is the truth for quantities, names, requests and fit, and each function names the file it follows.
"""
