"""The evaluation of rules.

An admission request and a policy set give a verdict, without files, clocks or sockets, and without a charge to a cap.
"""
