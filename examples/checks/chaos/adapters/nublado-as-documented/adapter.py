"""A loop that does what nublado's KubernetesWatcher does: src/nublado/controller/storage/kubernetes/watcher.py of
version VERSION. Itself it is part of a service, on kubernetes_asyncio.

Whenever a watch ends or lasts longer than RECONNECT, it begins again at once at the version of the list, the first one;
after 410 without a version. A frame that it can't read ends a watch, too. Other errors are raised; nublado begins
again a second later then.
"""

import json

import adapter_judge as judge
import kubernetes
from kubernetes import client
from urllib3.exceptions import ReadTimeoutError

VERSION = "15.1.0"
RECONNECT = 180  # seconds, the default


def new(resource):
    api = judge.api_client()
    objects = client.CustomObjectsApi(api)

    def events(query):
        for line in judge.stream(api, resource, RECONNECT, timeoutSeconds=RECONNECT, **query):
            try:
                event = json.loads(line)
                type, object = event["type"], event["object"]
            except (ValueError, KeyError, TypeError):
                return
            if type == "ERROR":
                raise client.ApiException(status=object.get("code"), reason=object.get("message"))
            yield type, object

    def watch():
        found = objects.list_cluster_custom_object(*resource.arguments)
        query = {"resourceVersion": found["metadata"]["resourceVersion"]}
        judge.listed(resource, found["items"], query["resourceVersion"])
        while True:
            try:
                for type, object in events(query):
                    judge.event(type, object)
            except (TimeoutError, ReadTimeoutError):
                pass
            except client.ApiException as e:
                if e.status != 410:
                    raise
                query = {}

    return watch


version = f"nublado {VERSION}, python3-kubernetes {kubernetes.__version__}"
judge.run("nublado's KubernetesWatcher, as documented", version, new)
