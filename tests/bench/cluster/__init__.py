"""The cost of informers in a synthetic cluster of 5,000 namespaces, 100,000 pods and 20,000 claims.

`python -m tests.bench cluster` prints a table in Markdown.

A separate process stands for the API server, over TLS, so that only the client's processor time and memory count.
The alternative is the official client: its lists, decoded into its objects, in a dict.
"""
