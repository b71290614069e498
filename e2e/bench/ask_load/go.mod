module tallygate.dev/e2e/bench/ask_load

go 1.26
