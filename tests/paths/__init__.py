"""The modules that four paths enter: a create under a cap, a prediction, a policy edit, a write of a ledger.

`python -m tests.paths` runs each path cold, against a server on loopback that stands for the API server. It prints the
modules of `tallygate` and `tallygate_certs` whose functions run, in the order in which they are entered first. A module
that is only imported does not count.
"""
