"""`python -m tallygate.cli` is `tallygate`."""

from tallygate.cli.app import main

main()
