//go:build !kubernetes_1_37 && !kubernetes_1_38

package main

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	corev1 "k8s.io/api/core/v1"
)

const minor = "1.36"

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

// onlyPod requeues all pods that precede the given pod: they wait, and keep their nominations.
func onlyPod(sched *scheduler.Scheduler, p *corev1.Pod) {
	next := sched.NextPod
	sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		for {
			queued, err := next(logger)
			if err != nil || queued.Pod.UID == p.UID {
				return queued, err
			}
			queued.UnschedulablePlugins = sets.New(names.NodeResourcesFit)
			if err := sched.SchedulingQueue.AddUnschedulableIfNotPresent(logger, queued, sched.SchedulingQueue.SchedulingCycle()); err != nil {
				return nil, err
			}
		}
	}
}
