module tallygate.dev/e2e/workload_kinds/controllers/knative_serving

go 1.26.0
