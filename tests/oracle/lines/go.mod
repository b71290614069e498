module tallygate.dev/oracle/lines

go 1.26.0
