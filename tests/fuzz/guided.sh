#!/bin/sh
# Coverage-guided fuzzing of every binary reader, MINUTES (10) each, with atheris in an environment of its own.
# Usage: guided.sh PYTHON [MINUTES]
python=$1 minutes=${2:-10}
here=$(dirname "$0")
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
if ! "$python" -m pip install -q --target "$place" atheris 2>/dev/null; then
    echo "skipped: atheris cannot be installed for this Python or machine"
    exit 0
fi
failed=0
for reader in "array" "depth .png" "depth .exr" "points .ply" "splats .ply" "splats a.glb" \
    "words of .glb" "inside of .spz" "splats a.compressed.ply" "splats a.sog" "model: cameras.bin" "model: images.bin" \
    "model: points3D.bin" "checkpoint" "words of a checkpoint"; do
    log=$(mktemp)
    PYTHONPATH=$place nice "$python" "$here/guided.py" "$reader" $((minutes * 60)) >"$log" 2>&1
    code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$reader: ${runs:-?} executions, $([ $code = 0 ] && echo nothing found || echo "a finding (exit $code), see $log")"
    [ $code = 0 ] || failed=1
done
exit $failed
