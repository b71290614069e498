// Command claims runs code of Kubernetes 1.36: each line on standard input has a claim and the extended resources of device
// classes, and is written again with what ResourceQuota charges for the claim under `answer`.
package main

import (
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	resourcev1 "k8s.io/kubernetes/pkg/apis/resource/v1"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"

	"tallygate.dev/oracle/lines"
)

type question struct {
	Claim   json.RawMessage   `json:"claim"`
	Classes map[string]string `json:"classes"`
}

type answer struct {
	question
	Answer map[string]string `json:"answer"`
}

func charge(asked question) any {
	var claim resourceapi.ResourceClaim
	if json.Unmarshal(asked.Claim, &claim) != nil {
		return nil // no API server would store this claim
	}
	resourcev1.SetObjectDefaults_ResourceClaim(&claim)
	classes := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	for name, resource := range asked.Classes {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if resource != "" {
			class.Spec.ExtendedResourceName = &resource
		}
		classes.OnAdd(class, false)
	}
	usage, err := quotacore.NewResourceClaimEvaluator(nil, classes, nil, nil).Usage(&claim)
	if err != nil {
		panic(err)
	}
	texts := map[string]string{}
	for name, quantity := range usage {
		texts[string(name)] = quantity.String()
	}
	return answer{asked, texts}
}

func main() {
	lines.Answer(charge)
}
