package main

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// managed returns the managedFields of p as they are after its creation by kube-controller-manager and a status update
// by kubelet: the fields of its labels, of its spec without defaults, and of its status.
func managed(p *corev1.Pod) []metav1.ManagedFieldsEntry {
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		panic(err) // a pod is always convertible
	}
	part := func(name string) map[string]any { return whole[name].(map[string]any) }
	metadata, spec, status := part("metadata"), part("spec"), part("status")
	containers := spec["containers"].([]any)
	created := map[string]any{
		"metadata": map[string]any{"labels": metadata["labels"], "ownerReferences": metadata["ownerReferences"]},
		"spec":     map[string]any{"containers": containers},
	}
	if len(containers) > 1 {
		created["spec"] = spec
	} else { // only some fields, to keep the object small
		c := containers[0].(map[string]any)
		created["metadata"] = map[string]any{"labels": metadata["labels"]}
		container := map[string]any{"name": c["name"], "image": c["image"], "resources": c["resources"]}
		created["spec"] = map[string]any{"containers": []any{container}}
		status = map[string]any{"conditions": status["conditions"], "phase": status["phase"], "podIP": status["podIP"]}
	}
	entry := func(manager, subresource string, at time.Time, fields map[string]any) metav1.ManagedFieldsEntry {
		raw, err := json.Marshal(fieldsOf(fields))
		if err != nil {
			panic(err) // maps of maps are always encodable
		}
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: &metav1.Time{Time: at}, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
			Subresource: subresource,
		}
	}
	return []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", "", p.CreationTimestamp.Time, created),
		entry("kubelet", "status", changed(), map[string]any{"status": status}),
	}
}

// fieldsOf returns the FieldsV1 of a value: "f:" and the key for a field, "k:" and the keys for an item of a list of
// type map, and an empty object for an atomic value.
func fieldsOf(v any) map[string]any {
	set := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			set["f:"+key] = fieldsOf(of)
		}
	case []any:
		for _, item := range v {
			item, _ := item.(map[string]any)
			if key := itemKey(item); key != "" {
				set[key] = fieldsOf(item)
				set[key].(map[string]any)["."] = map[string]any{}
			}
		}
	}
	return set
}

// itemKey returns the key that identifies an item in its list, or an empty string if it has none.
func itemKey(item map[string]any) string {
	if port, ok := item["containerPort"]; ok {
		return fmt.Sprintf(`k:{"containerPort":%v,"protocol":%q}`, port, item["protocol"])
	}
	for _, key := range []string{"uid", "mountPath", "type", "ip", "name"} {
		if v, ok := item[key]; ok {
			return fmt.Sprintf(`k:{%q:%q}`, key, v)
		}
	}
	return ""
}
