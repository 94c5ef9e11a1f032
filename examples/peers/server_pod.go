package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// size is the size of the objects' frames.
type size string

const (
	small size = "2.8k" // one container, and the fields that a cluster adds
	big   size = "11k"  // three containers with env and probes, and volumes
)

// Placeholders stand for what differs between two objects of one template, or between two events of one object. Each is
// as wide as the values that replace it, and occurs nowhere else.
const (
	versionHole   = "987654321"
	sentHole      = "8888888888888888888"
	changedHole   = "2001-02-03T04:05:06Z"
	nameHole      = "qxqxqx"
	namespaceHole = "peers-q"
	uidHole       = "dededededede"
	addressHole   = "10.199.198.197"
	containerHole = "c0c0c0c0c0c0c0c0"
)

const sentAnnotation = "example.com/sent"

// namespaces is the number of namespaces. The objects are distributed evenly.
const namespaces = 8

// canaryEvery says that one object in so many is a canary.
const canaryEvery = 10

var (
	apps = []string{
		"checkout", "cart", "catalog", "payments", "search", "accounts",
		"shipping", "gateway", "ledger", "mailer", "reports", "sessions",
	}
	variants = []string{"stable", "canary", "blue"}
	starts   = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
)

// random generates the values of one object.
type random struct{ *rand.Rand }

func (r random) of(values []string) string { return values[r.IntN(len(values))] }

func (r random) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
}

func (r random) suffix(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "bcdfghjklmnpqrstvwxz2456789"[r.IntN(27)] // the letters of generated names in Kubernetes
	}
	return string(b)
}

func (r random) time() metav1.Time {
	return metav1.NewTime(starts.Add(time.Duration(r.IntN(80*86400)) * time.Second))
}

// pod returns the n-th pod of a size, with the same values at each call.
func pod(s size, n int) *corev1.Pod {
	r := random{rand.New(rand.NewPCG(uint64(n), uint64(len(s))))}
	app, created := r.of(apps), r.time()
	hash := r.suffix(9)
	set := app + "-" + hash
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: set + "-" + nameHole, GenerateName: set + "-", Namespace: namespaceHole,
			UID: types.UID(
				fmt.Sprintf("%s-%s-4%s-a%s-%s", r.hex(8), r.hex(4), r.hex(3), r.hex(3), uidHole),
			),
			ResourceVersion: versionHole, Generation: 1, CreationTimestamp: created,
			Labels: map[string]string{
				"app": app, "pod-template-hash": hash, "canary": fmt.Sprint(n%canaryEvery == 0),
			},
			Annotations: map[string]string{sentAnnotation: sentHole},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(r.uid()),
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:           fmt.Sprintf("node-%03d.zone-%c", r.IntN(200), 'a'+r.IntN(3)),
			ServiceAccountName: app, SchedulerName: "default-scheduler",
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
			TerminationGracePeriodSeconds: new(int64(30)), SecurityContext: &corev1.PodSecurityContext{},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable,
			HostIP: fmt.Sprintf("10.0.%d.%d", r.IntN(4), 1+r.IntN(250)),
			PodIP:  addressHole, PodIPs: []corev1.PodIP{{IP: addressHole}}, StartTime: &created,
		},
	}
	if s == big {
		r.enlarge(p)
	} else {
		r.container(p, app, 1)
	}
	conditions := []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled}
	if s == big {
		conditions = append(conditions, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers)
	}
	for _, c := range conditions {
		at := created.Add(time.Duration(r.IntN(600)) * time.Second)
		if c == corev1.PodReady {
			at = changed()
		}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at),
		})
	}
	p.ManagedFields = managed(p)
	return p
}

func changed() time.Time {
	t, _ := time.Parse(time.RFC3339, changedHole)
	return t
}

func (r random) uid() string {
	return fmt.Sprintf("%s-%s-4%s-b%s-%s", r.hex(8), r.hex(4), r.hex(3), r.hex(3), r.hex(12))
}

// container adds a container and its status. If n is more than one, the container has probes and n-1 environment
// variables.
func (r random) container(p *corev1.Pod, name string, n int) {
	image := fmt.Sprintf("registry.example.com/%s:v%d.%d.%d", name, 1+r.IntN(3), r.IntN(20), r.IntN(10))
	c := corev1.Container{
		Name: name, Image: image,
		Ports: []corev1.ContainerPort{{
			Name: "http", ContainerPort: int32(8080 + r.IntN(10)), Protocol: corev1.ProtocolTCP,
		}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(fmt.Sprintf("%dm", 50*(1+r.IntN(20)))),
			corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 64*(1+r.IntN(16)))),
		}},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy: corev1.PullIfNotPresent,
	}
	for i := range n - 1 {
		c.Env = append(c.Env, corev1.EnvVar{
			Name:  fmt.Sprintf("%s_SETTING_%d", strings.ToUpper(name), i),
			Value: fmt.Sprintf("http://%s.shop.svc:%d/v1", r.of(apps), 8000+r.IntN(100)),
		})
	}
	c.VolumeMounts = []corev1.VolumeMount{{
		Name: "kube-api-access-" + r.suffix(5), ReadOnly: true,
		MountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
	}}
	if n > 1 {
		probe := func(path string) *corev1.Probe {
			get := &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}
			return &corev1.Probe{
				ProbeHandler:   corev1.ProbeHandler{HTTPGet: get},
				TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
			}
		}
		c.LivenessProbe, c.ReadinessProbe = probe("/healthz"), probe("/readyz")
	}
	p.Spec.Containers = append(p.Spec.Containers, c)
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: name, Ready: true, Started: new(true), RestartCount: int32(r.IntN(4)), Image: image,
		ImageID:     "sha256:" + r.hex(64),
		ContainerID: "containerd://" + containerHole + r.hex(48),
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: r.time()}},
	})
}

// enlarge gives p three containers, volumes and tolerations.
func (r random) enlarge(p *corev1.Pod) {
	for _, name := range []string{p.Labels["app"], "proxy", "logs"} {
		r.container(p, name, 4)
	}
	p.Annotations["prometheus.io/scrape"] = "true"
	p.Annotations["config.example.com/checksum"] = r.hex(64)
	p.Labels["variant"] = r.of(variants)
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(300)),
		})
	}
	for i := range 2 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: fmt.Sprintf("config-%d", i),
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: r.of(apps) + "-config"},
				DefaultMode:          new(int32(420)),
			}},
		})
	}
}
