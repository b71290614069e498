// Command resizes runs code of Kubernetes 1.37: each line on standard input is a case of tests/conformance with a pod,
// and is written again with the pod's requests on a node, as the scheduler counts them, under `answer`. Pods are not
// defaulted: cases have the requests that an API server would store.
package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"tallygate.dev/oracle/lines"
)

type question struct {
	Pod json.RawMessage `json:"pod"`
}

type answer struct {
	Kubernetes string            `json:"kubernetes"`
	Pod        json.RawMessage   `json:"pod"`
	Answer     map[string]string `json:"answer"`
}

func sum(asked question) any {
	var pod corev1.Pod
	if json.Unmarshal(asked.Pod, &pod) != nil {
		return nil // no API server would store this pod
	}
	requests := resourcehelper.PodRequests(&pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	texts := map[string]string{}
	for name, quantity := range requests {
		texts[string(name)] = quantity.String()
	}
	return answer{"1.37", asked.Pod, texts}
}

func main() {
	lines.Answer(sum)
}
