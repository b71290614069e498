"""Where pods could run: the work behind `tallygate predict` and `tallygate headroom`.

The rule of this room: `world` reads a cluster or a snapshot into columns, the rest asks `webhook.accounting.fit` and
prints what it says. Nothing is decided here, and nothing is sent anywhere.
"""
