"""Certificates for the gate: an authority of its own, leaves signed by it, where they are kept, and who is told of it.

The rule of this package: it knows nothing of the webhook, and the server never imports it. Time is passed in. Only
`cluster` and `api` know the official client of API servers, which is slow to load.
"""
