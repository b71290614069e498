// The modules that e2e/workload_kinds/modules.py reads files of; go.sum has their checksums.
module tallygate.dev/e2e/workload-kinds

go 1.26.0
