"""Certificates for the gate: an authority of its own, leaves signed by it, and where they are kept.

The rule of this package: it knows nothing of the webhook, and the server never imports it. Time is passed in.
"""
