"""Kubernetes objects as far as tallygate reads them.

The rule of this room: typed records that name only the fields somebody needs, decoded from JSON bytes by msgspec;
no meaning, no rule, no arithmetic. Unknown fields are passed over, and `null` reads as absent, as in Kubernetes.
What is kept in memory by the hundred thousand is written without what is absent.
Quantities stay raw JSON here: what they say is for `webhook.accounting.quantity` to find out, exactly.
"""
