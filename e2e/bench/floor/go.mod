module tallygate.dev/e2e/bench/floor

go 1.26
