"""Rules.

An admission request and a policy set give a verdict, with no file, clock or socket, and without charging a cap.
"""
