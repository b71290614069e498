"""Clusters and pods, drawn.

The rule of this room: what is drawn depends on the dice handed in and on nothing else; nobody is asked anything here.
What the API server would refuse may be drawn now and then, for it is left out then.
"""
