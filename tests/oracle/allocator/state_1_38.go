//go:build kubernetes_1_38

package main

import (
	"context"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/stable"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"
)

// newAllocator returns the stable allocator, which the default feature gates choose since 1.38.
func newAllocator(ctx context.Context, in inputs, cache *cel.Cache) (internal.Allocator, error) {
	slices := make([]*draapi.ResourceSlice, 0, len(in.slices))
	for _, slice := range in.slices {
		converted := &draapi.ResourceSlice{}
		if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, converted, nil); err != nil {
			return nil, err
		}
		slices = append(slices, converted)
	}
	return stable.NewAllocator(ctx, in.features, in.state, classLister(in.classes), slices, cache)
}

// recordTests cannot run Kubernetes' own tests: their module k8s.io/ktesting is not published with every pre-release.
func recordTests(func(answered)) {
	panic("the tests of 1.38 need k8s.io/ktesting")
}

func (a allocated) read() internal.AllocatedState {
	state := internal.AllocatedState{
		AllocatedDevices:         sets.New[internal.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[internal.DeviceID](),
		AggregatedCapacity:       internal.NewConsumedCapacityCollection(),
	}
	for _, device := range a.Devices {
		state.AllocatedDevices.Insert(readDevice(device))
	}
	for _, shared := range a.Shared {
		state.AllocatedSharedDeviceIDs.Insert(readDevice(shared[:strings.LastIndex(shared, "/")]))
	}
	for device, amounts := range a.Capacity {
		consumed := map[resourceapi.QualifiedName]resource.Quantity{}
		for name, text := range amounts {
			consumed[resourceapi.QualifiedName(name)] = resource.MustParse(text)
		}
		state.AggregatedCapacity.Insert(schedulerapi.NewDeviceConsumedCapacity(readDevice(device), consumed))
	}
	return state
}
