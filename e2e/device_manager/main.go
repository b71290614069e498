// Command devicemanager is the kubelet's manager of device plugins without the rest of a kubelet: its own code, over a
// socket of the caller's choice. It reads one JSON command a line and answers each with one JSON line.
//
// A kubelet that restarts is this program ended and started again over the same folder.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	_ "unsafe" // for linkname

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// The exported constructor takes the socket of the machine's own kubelet.
//
//go:linkname newManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManager(logger klog.Logger, socket string, topology []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

type command struct {
	Name  string           `json:"name"`
	Pod   string           `json:"pod"`
	Count map[string]int64 `json:"count"`
}

type answer struct {
	Error       string              `json:"error,omitempty"`
	Capacity    map[string]int64    `json:"capacity,omitempty"`
	Allocatable map[string]int64    `json:"allocatable,omitempty"`
	Devices     map[string][]string `json:"devices,omitempty"`
	Health      map[string]string   `json:"health,omitempty"`
	Options     any                 `json:"options,omitempty"`
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

type kubelet struct {
	manager *devicemanager.ManagerImpl
	pods    map[string]*v1.Pod
	logger  klog.Logger
}

func main() {
	ctx := context.Background()
	logger := klog.FromContext(ctx)
	manager, err := newManager(logger, os.Args[1], []cadvisorapi.Node{{Id: 0}, {Id: 1}}, topologymanager.NewFakeManager(logger))
	if err != nil {
		panic(err)
	}
	running := &kubelet{manager: manager, pods: map[string]*v1.Pod{}, logger: logger}
	if err := manager.Start(logger, running.activePods, ready{}, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		panic(err)
	}
	fmt.Println(`{}`)
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked command
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		answered, err := running.answer(ctx, asked)
		if err != nil {
			answered.Error = err.Error()
		}
		if err := answers.Encode(answered); err != nil {
			panic(err)
		}
	}
}

func (k *kubelet) activePods() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(k.pods))
	for _, pod := range k.pods {
		pods = append(pods, pod)
	}
	return pods
}

func (k *kubelet) answer(ctx context.Context, asked command) (answer, error) {
	switch asked.Name {
	case "capacity":
		capacity, allocatable, _ := k.manager.GetCapacity(k.logger)
		return answer{Capacity: plain(capacity), Allocatable: plain(allocatable)}, nil
	case "allocate":
		return k.allocate(ctx, asked)
	case "known":
		// A pod of before a restart: the kubelet learns of it from its own checkpoint and the API server.
		k.pods[asked.Pod] = newPod(asked)
		return k.describe(ctx, asked.Pod)
	case "status":
		return k.describe(ctx, asked.Pod)
	case "remove":
		delete(k.pods, asked.Pod)
		k.manager.UpdateAllocatedDevices(k.logger)
		return answer{}, nil
	case "stop":
		return answer{}, k.manager.Stop(k.logger)
	}
	return answer{}, fmt.Errorf("no command is named %q", asked.Name)
}

func (k *kubelet) allocate(ctx context.Context, asked command) (answer, error) {
	pod := newPod(asked)
	k.pods[asked.Pod] = pod
	if err := k.manager.Allocate(ctx, pod, &pod.Spec.Containers[0], lifecycle.AddOperation); err != nil {
		delete(k.pods, asked.Pod)
		return answer{}, err
	}
	return k.describe(ctx, asked.Pod)
}

func (k *kubelet) describe(ctx context.Context, name string) (answer, error) {
	pod, found := k.pods[name]
	if !found {
		return answer{}, fmt.Errorf("there is no pod %q", name)
	}
	given := answer{Devices: map[string][]string{}, Health: map[string]string{}}
	for resourceName, instances := range k.manager.GetDevices(name, "main") {
		for id := range instances {
			given.Devices[resourceName] = append(given.Devices[resourceName], id)
		}
		sort.Strings(given.Devices[resourceName])
	}
	status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "main"}}}
	k.manager.UpdateAllocatedResourcesStatus(k.logger, pod, &status)
	for _, each := range status.ContainerStatuses[0].AllocatedResourcesStatus {
		for _, health := range each.Resources {
			given.Health[string(health.ResourceID)] = string(health.Health)
		}
	}
	options, err := k.manager.GetDeviceRunContainerOptions(ctx, pod, &pod.Spec.Containers[0])
	given.Options = options
	return given, err
}

func newPod(asked command) *v1.Pod {
	limits := v1.ResourceList{}
	for name, count := range asked.Count {
		limits[v1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: asked.Pod, Namespace: "default", UID: types.UID(asked.Pod)},
		Spec: v1.PodSpec{Containers: []v1.Container{
			{Name: "main", Resources: v1.ResourceRequirements{Limits: limits, Requests: limits}},
		}},
	}
}

func plain(amounts v1.ResourceList) map[string]int64 {
	numbers := map[string]int64{}
	for name, amount := range amounts {
		numbers[string(name)] = amount.Value()
	}
	return numbers
}
