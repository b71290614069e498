"""Judging: what an admission review asks, and what the answer is.

The rule of this room: pure. A review comes in as bytes and goes out as bytes; policies, namespace labels and the time
are handed in; nothing here reads a clock, a file or a socket, and nothing here charges a cap.
"""
