// Command resizes runs code of Kubernetes 1.37: each line on standard input is a case of tests/conformance with a pod,
// and is written again with the pod's requests on a node, as the scheduler counts them, under `answer`. Pods are not
// defaulted: cases have the requests that an API server would store.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

type question struct {
	Pod json.RawMessage `json:"pod"`
}

type answer struct {
	Kubernetes string            `json:"kubernetes"`
	Pod        json.RawMessage   `json:"pod"`
	Answer     map[string]string `json:"answer"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var asked question
		var pod corev1.Pod
		if json.Unmarshal(lines.Bytes(), &asked) != nil || json.Unmarshal(asked.Pod, &pod) != nil {
			continue // no API server would store this pod
		}
		requests := resourcehelper.PodRequests(&pod, resourcehelper.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		})
		texts := map[string]string{}
		for name, quantity := range requests {
			texts[string(name)] = quantity.String()
		}
		line, err := json.Marshal(answer{"1.37", asked.Pod, texts})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}
