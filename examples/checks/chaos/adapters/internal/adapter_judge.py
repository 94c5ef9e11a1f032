"""What the adapters in Python share: what the judge gives a program, and the lines that it reads (docs/judge.md)."""

import json
import os
import sys
import threading
import time

from kubernetes import client

PAUSE = 1  # seconds, before a loop that an exception has ended begins again

_output = threading.Lock()
_synced = set()


class Resource:
    """One of the resources to watch, in all namespaces."""

    def __init__(self, path):
        _, self.group, self.version, self.plural = path.split("/")
        self.path = "/" + path
        self.name = f"{self.plural}.{self.group}"
        # The arguments of CustomObjectsApi.list_cluster_custom_object.
        self.arguments = (self.group, self.version, self.plural)


def say(**line):
    """Writes a line at once."""
    text = json.dumps(line) + "\n"
    with _output:
        sys.stdout.write(text)
        sys.stdout.flush()


def event(type, object):
    say(type=type, object=object)


def synced(resource, version=None):
    """Says SYNCED, but only once for each resource: none of the clients says that a later list makes up for a gap."""
    if resource.name not in _synced:
        _synced.add(resource.name)
        say(type="SYNCED", resource=resource.name, **({"resourceVersion": version} if version else {}))


def listed(resource, items, version):
    """Reports what a list has as most scripts do: all objects, whether they are known or not."""
    for item in items:
        event("ADDED", item)
    synced(resource, version)


def api_client():
    """Returns a client that reads the token for each request."""
    configuration = client.Configuration()
    configuration.host = os.environ["JUDGE_SERVER"]
    configuration.ssl_ca_cert = os.environ["JUDGE_CA"]

    def refresh(c):
        with open(os.environ["JUDGE_TOKEN"]) as f:
            c.api_key["authorization"] = "Bearer " + f.read().strip()

    refresh(configuration)
    configuration.refresh_api_key_hook = refresh
    return client.ApiClient(configuration)


def stream(api, resource, total, **query):
    """Yields the lines of a watch of an ApiClient, for a number of seconds at most, after which it raises TimeoutError.

    A read that lasts longer than that from the last byte on raises urllib3's errors.
    """
    end = time.monotonic() + total
    response = api.call_api(
        resource.path, "GET", query_params=[("watch", "true"), *query.items()],
        auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True, _request_timeout=total)
    try:
        for line in response:
            if time.monotonic() > end:
                raise TimeoutError(f"the watch lasted {total} s")
            if line.strip():
                yield line
    finally:
        response.close()
        response.release_conn()


def run(name, version, new):
    """Runs what new(resource) returns in a thread for each resource, again and again.

    What it returns may return or raise: it begins again PAUSE seconds later, as a user's supervisor would do.
    """
    say(type="CLIENT", name=name, version=version)

    def forever(resource):
        watch = new(resource)
        while True:
            try:
                watch()
            except Exception as e:
                say(type="ERROR", message=" ".join(f"{resource.name}: {type(e).__name__}: {e}".split())[:300])
            time.sleep(PAUSE)

    for path in os.environ["JUDGE_RESOURCES"].split():
        threading.Thread(target=forever, args=[Resource(path)]).start()
