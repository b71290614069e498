//go:build !kubernetes_1_38

package main

import "k8s.io/dynamic-resource-allocation/cel"

func convert(published device) cel.Device {
	return cel.Device{
		Driver:                   published.Driver,
		AllowMultipleAllocations: published.AllowMultipleAllocations,
		Attributes:               published.Attributes,
		Capacity:                 published.Capacity,
	}
}
