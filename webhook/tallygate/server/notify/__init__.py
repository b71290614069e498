"""Messages to receivers outside the cluster, by HTTPS: their file, their bodies, and the requests.

When a message is due stands in `gate.notifications`. No message delays a review or the message to another receiver.
"""
