"""Caps and their ledgers, as Prometheus is told of them.

The rule of this room: it watches and decides nothing. Every label has a bounded set of values: names of caps and of
what they count come from policies, up to a bound; namespaces are added up, but for the few that are fullest.
"""
