"""Certificates of the gate.

Its CA, its serving certificate, their files and Secret, and the CA bundle of the webhook configurations.
"""
