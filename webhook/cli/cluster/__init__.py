"""What a cluster holds now: read from its API server, followed there, or read from a snapshot.

The rule of this room: whoever asks gets the same views, wherever they come from, and they are the very views by which
the gate counts. Nothing is judged here, and nothing is written to a cluster.
"""
