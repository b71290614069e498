//go:build kubernetes_1_38

package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/cel"
)

// convert returns a device as the scheduler reads it of a slice: its attributes are converted before any expression.
func convert(published device) cel.Device {
	devices := []resourceapi.Device{{
		Name:                     "d",
		AllowMultipleAllocations: published.AllowMultipleAllocations,
		Attributes:               published.Attributes,
		Capacity:                 published.Capacity,
	}}
	read := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: published.Driver, Devices: devices}}
	slice := &api.ResourceSlice{}
	if err := api.Convert_v1_ResourceSlice_To_api_ResourceSlice(read, slice, nil); err != nil {
		panic(err)
	}
	return cel.Device{
		Driver:                   published.Driver,
		AllowMultipleAllocations: slice.Spec.Devices[0].AllowMultipleAllocations,
		LookupUniqueString:       slice.LookupUniqueString,
		Attributes:               slice.Spec.Devices[0].Attributes,
		Capacity:                 slice.Spec.Devices[0].Capacity,
	}
}
