"""A loop that does what hikaru's Watcher does with managed versions: hikaru/watch.py and docs/watchers.rst of version
VERSION. Itself it is not installed: it is built on kubernetes-client/python, as hikaru is.

It watches for a second at a time, from the highest version of an event on. At 410 it goes on at the oldest version
that the message names, and skips what was before. Everything else is raised, also 410 if the message names no version.
Then the caller's exception callback has to update the version; here it lists again after 410. After everything else it
returns True, by which the watcher begins again where it was; here a second later.
"""

import re

import adapter_judge as judge
import kubernetes
from kubernetes import client, watch

VERSION = "1.3.0"
OLDEST = re.compile(r"\((\d+)\)")  # as in "too old resource version: 1 (5)"


def new(resource):
    api = client.CustomObjectsApi(judge.api_client())
    start = []  # the version at which the next watch starts
    highest = -1  # version of an event

    def stream():
        nonlocal highest
        if not start:  # nor after 410
            found = api.list_cluster_custom_object(*resource.arguments)
            start.append(found["metadata"]["resourceVersion"])
            judge.listed(resource, found["items"], start[0])
        watcher = watch.Watch()
        while True:
            start[0] = str(max(highest, int(start[0])))
            try:
                for event in watcher.stream(
                        api.list_cluster_custom_object, *resource.arguments,
                        resource_version=start[0], timeout_seconds=1):
                    highest = max(highest, int(event["object"]["metadata"]["resourceVersion"]))
                    judge.event(event["type"], event["object"])
            except client.ApiException as e:
                if e.status != 410:
                    raise
                oldest = OLDEST.search(e.reason or "")
                if not oldest:
                    start.clear()
                    raise
                start[0] = oldest[1]

    return stream


version = f"hikaru {VERSION}, python3-kubernetes {kubernetes.__version__}"
judge.run("hikaru's Watcher, as documented", version, new)
