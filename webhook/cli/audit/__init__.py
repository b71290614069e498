"""The command `audit`.

It reads what is audited and prints the findings; `webhook.audit` evaluates, and only reports that were requested are
written.
"""
