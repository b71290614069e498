//go:build kubernetes_1_38

package main

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	corev1 "k8s.io/api/core/v1"
)

const minor = "1.38"

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

// onlyPod requeues all pods that precede the given pod: they wait, and keep their nominations.
func onlyPod(sched *scheduler.Scheduler, p *corev1.Pod) {
	next := sched.NextEntity
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		for {
			entity, err := next(logger)
			queued, isPod := entity.(*framework.QueuedPodInfo)
			if err != nil || !isPod || queued.Pod.UID == p.UID {
				return entity, err
			}
			queued.UnschedulablePlugins = sets.New(names.NodeResourcesFit)
			if err := sched.SchedulingQueue.AddUnschedulablePodIfNotPresent(klog.NewContext(context.Background(), logger), queued, sched.SchedulingQueue.SchedulingCycle()); err != nil {
				return nil, err
			}
		}
	}
}
