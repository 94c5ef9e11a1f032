#!/bin/bash
# kubectl get --watch for each resource, started again when it ends. Beside this file must be kubectl itself as
# .kubectl, which a folder of adapters does not run by itself.
kubectl=$(dirname "$0")/.kubectl
loop() {
	resource=$(echo "$1" | cut -d/ -f4).$(echo "$1" | cut -d/ -f3).$(echo "$1" | cut -d/ -f2)
	while true; do
		"$kubectl" get "$resource" -A -w --output-watch-events -o json --cache-dir "$JUDGE_DIR/cache" |
			jq -c --unbuffered .
		sleep 1
	done
}
version=$("$kubectl" version --client | sed -n 's/^Client Version: //p')
echo '{"type": "CLIENT", "name": "kubectl get --watch", "version": "'"kubectl $version"'"}'
for path in $JUDGE_RESOURCES; do
	loop "$path" &
done
sleep 5 # it does not tell what of the objects that exist is the last one
echo '{"type": "READY"}'
wait
