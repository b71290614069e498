"""Informers and control loops beside the gate.

Threads, clocks and sockets are here. Decisions are in `gate` and `audit`.
"""
