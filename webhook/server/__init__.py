"""The web: Flask is the application, granian serves it, the admission layer stands in front.

The rule of this room: it hands bytes to the gate and bytes back, and turns what the gate says into status codes, log
lines and metrics. It decides nothing.
"""
