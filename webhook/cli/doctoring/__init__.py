"""Whether the gate does in a cluster what it is there for: what is known of it, and what each point comes to.

The rule of this room: `gathering` and what it calls ask the API server and change nothing there (the one thing sent is
a dry run); `checks` are pure functions over what was gathered, and what could not be seen is a value like any other, so
that nobody takes it for good.
"""
