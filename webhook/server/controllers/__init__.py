"""Informers and control loops beside the gate.

Threads, clocks and sockets are here, decisions are in gate and audit.
"""
