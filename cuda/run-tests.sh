#!/bin/sh
# Runs the test binaries beside it and prints a summary. Each runs in its package's
# folder of the repository, where its models and goldens are found: REPOSITORY names
# it, or it is two folders up (build/gpu). Without one, only the tests that need
# nothing but a GPU run. EXL2_GOLDEN names a folder of more goldens. Arguments go to
# the binaries, as -test.run TestDevice/Norm; TOOL runs them, as "compute-sanitizer
# --tool memcheck"; LOGS is where the whole output goes.
here=$(cd "$(dirname "$0")" && pwd) || exit
repository=${REPOSITORY:-$here/../..}
mkdir -p "${LOGS:-$here}" && logs=$(cd "${LOGS:-$here}" && pwd) || exit
status=0
for binary in "$here"/*.test; do
    name=$(basename "$binary" .test)
    log=$logs/$name.test.log
    if [ -f "$repository/go.mod" ]; then
        cd "$repository/$name" || exit
    elif [ "$name" = cuda ]; then
        cd "$here" || exit
    else
        echo "$name: not run: its models and goldens are in the repository; REPOSITORY says where that is"
        status=1
        continue
    fi
    start=$(date +%s)
    $TOOL "$binary" -test.v "$@" >"$log" 2>&1
    code=$?
    [ $code -eq 0 ] || status=1
    echo "$name: exit $code, $(grep -c -e '--- PASS' "$log") passed, $(grep -c -e '--- FAIL' "$log") failed, $(grep -c -e '--- SKIP' "$log") skipped, $(($(date +%s) - start)) s"
    grep -v -e '^=== ' -e '--- PASS' -e '^PASS' "$log" | head -200
done
exit $status
