package readiness

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Problem returns why an object is not ready, such as "is not ready (available: 1/3)". It is empty if the object is
// ready. An object that has no status and no rules of its own is ready, such as a ConfigMap. So is a Pod that has
// ended, and a Job that runs. Problem does not change the object.
func Problem(o *unstructured.Unstructured) (problem string) {
	defer func() {
		if recover() != nil { // kstatus trusts the types of some fields
			problem = unreadable
		}
	}()
	result, err := status.Compute(o)
	switch {
	case err != nil: // its text may quote the object
		return unreadable
	case result.Status == status.CurrentStatus:
		return ""
	}
	return "is not ready (" + explain(result) + ")"
}

const unreadable = "is not ready (its status can't be read)"

// explain returns why, by what kstatus has found. Reasons and messages may be those of the object.
func explain(result *status.Result) string {
	if counts.MatchString(result.Message) {
		return strings.ToLower(result.Message)
	}
	for _, c := range result.Conditions {
		if text := reasons[c.Reason]; text != "" {
			return text
		}
	}
	switch result.Status {
	case status.TerminatingStatus:
		return "it is being deleted"
	case status.FailedStatus:
		return "it has failed"
	}
	return "in progress"
}

// counts are messages of kstatus that have only numbers.
var counts = regexp.MustCompile(
	`^(Replicas|Ready|[Uu]pdated|Available|[Cc]urrent|Labelled): -?[0-9]{1,20}/-?[0-9]{1,20}$`)

// reasons are those of kstatus, without those whose messages are counts.
var reasons = map[string]string{
	"LatestGenerationNotObserved": "its controller has not seen the latest change",
	"NoGeneration":                "it has no generation",
	"NoObservedGeneration":        "its controller has not seen it",
	"ExtraPods":                   "old replicas are being deleted",
	"RevisionMismatch":            "not every replica has the latest revision",
	"ReplicaSetNotAvailable":      "its latest ReplicaSet is not available",
	"DeploymentNotAvailable":      "it is not available",
	"ProgressDeadlineExceeded":    "its progress deadline is exceeded",
	"ReplicaFailure":              "replicas can't be created",
	"NoDesiredNumber":             "its controller has not seen it",
	"NotBound":                    "it is not bound",
	"PodRunningNotReady":          "it runs, but is not ready",
	"PodNotScheduled":             "it is not scheduled",
	"PodUnschedulable":            "it can't be scheduled",
	"PodPending":                  "it is pending",
	"PodNotObserved":              "it has no phase",
	"ContainerCrashLooping":       "a container crashes again and again",
	"JobNotStarted":               "it has not started",
	"JobFailed":                   "it has failed",
	"NoIPAssigned":                "it has no cluster IP",
	"Installing":                  "it is being installed",
}
