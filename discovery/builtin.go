package discovery

import (
	"slices"
	"strings"
)

// builtInGroups are the groups with a dot that a kube-apiserver has itself, and those that it had. No CRD can have a
// group without a dot (k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation).
//
// They are named here because no discovery document says which groups are built in, and the suffix k8s.io doesn't: CRDs
// have it, too (snapshot.storage.k8s.io).
var builtInGroups = []string{
	"admissionregistration.k8s.io",
	"apiextensions.k8s.io",
	"apiregistration.k8s.io",
	"auditregistration.k8s.io",
	"authentication.k8s.io",
	"authorization.k8s.io",
	"certificates.k8s.io",
	"coordination.k8s.io",
	"discovery.k8s.io",
	"events.k8s.io",
	"flowcontrol.apiserver.k8s.io",
	"imagepolicy.k8s.io",
	"internal.apiserver.k8s.io",
	"lifecycle.k8s.io",
	"networking.k8s.io",
	"node.k8s.io",
	"rbac.authorization.k8s.io",
	"resource.k8s.io",
	"scheduling.k8s.io",
	"settings.k8s.io",
	"storage.k8s.io",
	"storagemigration.k8s.io",
}

// builtIn reports whether a group belongs to Kubernetes itself, so that its types have their names before all others.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains(builtInGroups, group)
}
