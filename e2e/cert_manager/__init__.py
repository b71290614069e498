"""cert-manager's own controllers, CA injector and webhook, built from its module, for the overlay that relies on them.

The rule of this package: their behaviour is theirs. Only their start is ours (main.go), since the modules of their
commands are published nowhere. It takes Go some minutes, so the suite does it only where it was asked for once, by
`python -m e2e.cert_manager`.
"""
