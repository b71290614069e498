"""`python -m tallygate.webhook.cli` is `tallygate`."""

from tallygate.webhook.cli.app import main

main()
