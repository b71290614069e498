"""A made-up cluster of 5,000 namespaces and 100,000 pods, and what it costs to know it.

`python -m tests.bench cluster` prints a table in Markdown.

The API is played by a process of its own, over TLS, so that only the watcher's processor time and memory are counted.
Beside it stands what one would use instead: the official client's lists, decoded into its objects, in a dict.
"""
