"""What would happen to the objects of manifests in the state of a cluster, as values that commands and servers show.

Rule: it changes nothing, prints nothing, and asks no API server.
"""
