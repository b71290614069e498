"""The command `audit`.

It reads the objects and prints the findings; `tallygate.audit` evaluates them. Reports are written only on request.
"""
