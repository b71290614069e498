"""The command `audit`.

It reads the objects and prints the findings; `webhook.audit` evaluates them. Reports are written only on request.
"""
