"""Sequence tests of policies: a story is read, played before the very gate and keeper of the server, and reported.

The rule of this room: what an API server, its controllers and time would do is here, and decides nothing about
resources. `load` alone touches files; the clock moves only when a story says so.
"""
