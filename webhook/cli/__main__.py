"""`python -m webhook.cli` is `tallygate`."""

from webhook.cli.app import main

main()
