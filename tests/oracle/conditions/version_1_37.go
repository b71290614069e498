//go:build kubernetes_1_37 || kubernetes_1_38

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

func version(object runtime.Object) admission.LazyObject { return admission.NewLazyObject(object) }
