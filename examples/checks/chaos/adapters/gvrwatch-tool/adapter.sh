#!/bin/sh
# The tool, whose lines are those of the judge. It goes on where its checkpoint is. Beside this file must be the
# tool itself as .gvrwatch, which a folder of adapters does not run by itself.
set -eu
tool=$(dirname "$0")/.gvrwatch
echo '{"type": "CLIENT", "name": "gvrwatch, tool", "version": "gvrwatch '"$("$tool" version --short)"'", "strict": true, "resumes": true}'
groups=$(for path in $JUDGE_RESOURCES; do echo "$path" | cut -d/ -f2; done | sort -u)
for group in $groups; do
	set -- "$@" "*.$group"
done
exec "$tool" watch "$@" -A -o json --checkpoint "$JUDGE_DIR/store"
