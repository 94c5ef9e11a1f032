package decodetest

import "fmt"

// PodEvent returns a MODIFIED event for a pod of a Deployment, 2.8 KB with a line end. The name, uid and times depend
// on i.
func PodEvent(i int) []byte {
	pod := fmt.Sprintf("web-%x-%x", 0x6d4cf56d+i/10, 0x70000+i*7919)
	uid := fmt.Sprintf("%08x-8a55-4a3e-9c11-%012x", i*2654435761&0xffffffff, i*40503)
	owner := fmt.Sprintf("%08x-1d0a-4d0f-8a37-1f0a6d1c2b3a", i/10*7919)
	at := func(s int) string { return fmt.Sprintf("2026-11-20T10:%02d:%02dZ", i%60, (i+s)%60) }
	return fmt.Appendf(nil,
		`{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%[1]q,`+
			`"generateName":"web-%[2]x-","namespace":"shop-%[3]d","uid":%[4]q,"resourceVersion":"10000000",`+
			`"generation":1,"creationTimestamp":%[5]q,"labels":{"app":"web","pod-template-hash":"%[2]x",`+
			`"tier":"front"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"8080"},`+
			`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-%[2]x","uid":%[6]q,`+
			`"controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager",`+
			`"operation":"Update","apiVersion":"v1","time":%[5]q,"fieldsType":"FieldsV1",`+
			`"fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},`+
			`"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},`+
			`"f:tier":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%[7]s\"}":{}}},`+
			`"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},`+
			`"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},`+
			`"f:containerPort":{},"f:protocol":{}}},"f:resources":{},"f:terminationMessagePath":{},`+
			`"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{}}}}]},`+
			`"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.42.0",`+
			`"ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[{"name":"MODE","value":"production"},`+
			`{"name":"LEVEL","value":"info"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},`+
			`"requests":{"cpu":"100m","memory":"128Mi"}},"terminationMessagePath":"/dev/termination-log",`+
			`"terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always",`+
			`"terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-%[8]d",`+
			`"securityContext":{},"schedulerName":"default-scheduler"},"status":{"phase":"Running",`+
			`"conditions":[{"type":"Initialized","status":"True","lastTransitionTime":%[5]q},{"type":"Ready",`+
			`"status":"True","lastTransitionTime":%[9]q}],"hostIP":"10.0.3.%[8]d","podIP":"10.244.%[8]d.%[10]d",`+
			`"startTime":%[5]q,"containerStatuses":[{"name":"web","state":{"running":{"startedAt":%[9]q}},`+
			`"lastState":{},"ready":true,"restartCount":0,"image":"registry.example.com/shop/web:1.42.0",`+
			`"started":true}],"qosClass":"Burstable"}}}`+"\n",
		pod, 0x6d4cf56d+i/10, i%7, uid, at(0), owner, owner, i%40, at(7), i%250)
}
