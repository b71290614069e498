"""Auditing from the command line: where what is audited comes from, and how what was found is printed.

The rule of this room: it judges nothing (`webhook.audit` does), and writes nothing but what was asked for.
"""
