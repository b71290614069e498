"""Audits on a schedule, in the one replica that keeps ledgers.

The rule of this room: it only says when and how fast; `webhook.audit` judges and writes reports. It works for a tenth
of the time at most and rests for the others, so that answers do not wait for it.
"""
