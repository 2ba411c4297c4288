#!/usr/bin/env bash
# Runs all tests of the workspace for `make test`: CPU-bound test programs sequentially, then the programs of the package e2e in
# parallel, because they mostly wait. The output of an e2e program is printed when it ends.
#
# Failed e2e tests are retried once, alone, because they share the machine with control planes, kubelets and agents; both results are
# printed. There is no retry if the program does not report which tests failed, or if an audit log contains a forbidden event (chaos).
# Random tests have a fixed seed; to change it: `PROPTEST_RNG_SEED=7 make test`.
set -uo pipefail

# In the first part cargo calls this script as the runner of each test program, which defers the programs of e2e.
if [ "${1-}" = --run ]; then
	shift
	name=${1##*/}
	name=${name%-*}
	if [ "${CARGO_PKG_NAME-}" = e2e ] && [ "$name" != e2e ]; then
		echo "$name" >> "$LATER"
		echo "deferred: runs in parallel with the other programs of e2e"
		exit 0
	fi
	exec "$@"
fi

export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-2026}
# The numbers of concurrent e2e programs, and of concurrent tests of `product` (product/installation.rs).
beside=${CAIRN_TESTS_BESIDE:-3}
stages=3
# The longest programs start first, in this order.
longest=(product metrics real_nodes footprint chaos uninstall)
# Run after the others, one at a time: their actors are pods with a small share of the CPU, and must send as fast as the test expects.
alone=(demo_loop)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export LATER=$logs/later
: > "$LATER"

runner="target.'cfg(all())'.runner = ['$here/test.sh', '--run']"
cargo test --locked --workspace --no-fail-fast --tests --config "$runner" 2>&1 | tee "$logs/first"
status=${PIPESTATUS[0]}
# compilation failed
[ -s "$LATER" ] || exit "$status"
cargo test --locked --workspace --no-fail-fast --doc 2>&1 | tee "$logs/doc"
[ "${PIPESTATUS[0]}" -eq 0 ] || status=1

mapfile -t all < "$LATER"
programs=()
for name in "${longest[@]}" "${all[@]}"; do
	if [[ " ${all[*]} " == *" $name "* && " ${programs[*]-} " != *" $name "* ]]; then programs+=("$name"); fi
done

failed=()
shown=0
declare -A running=()
# Waits until a running program ends, and prints its output.
wait_for_one() {
	local ended code
	wait -n -p ended "${!running[@]}"
	code=$?
	cat "$logs/${running[$ended]}"
	shown=$((shown + 1))
	[ "$code" -eq 0 ] || failed+=("${running[$ended]}")
	unset "running[$ended]"
}
start() {
	local name=$1 threads=()
	[ "$name" != product ] || threads=("--test-threads=$stages")
	cargo test --locked --workspace --test "$name" -- "${threads[@]}" > "$logs/$name" 2>&1 &
	running[$!]=$name
}
for name in "${programs[@]}"; do
	[[ " ${alone[*]} " != *" $name "* ]] || continue
	[ "${#running[@]}" -lt "$beside" ] || wait_for_one
	start "$name"
done
while [ "${#running[@]}" -gt 0 ]; do wait_for_one; done
for name in "${programs[@]}"; do
	[[ " ${alone[*]} " == *" $name "* ]] || continue
	start "$name"
	wait_for_one
done
if [ "$shown" -ne "${#all[@]}" ]; then
	echo "only $shown of ${#all[@]} programs of e2e were run: this is a bug in ${BASH_SOURCE[0]}" >&2
	exit 1
fi

if [ "$status" -ne 0 ]; then
	# repeat the errors at the end of the output
	for log in "$logs/first" "$logs/doc"; do sed -nE '/^error: [0-9]+ (target|doctest)/,$p' "$log"; done
	exit "$status"
fi
[ "${#failed[@]}" -gt 0 ] || exit 0

for name in "${failed[@]}"; do
	# the test names below the last `failures:` of the program
	mapfile -t tests < <(awk '
		/^failures:$/  { delete names; count = 0 }
		/^    [A-Za-z0-9_:]+$/ { names[count++] = $1 }
		/^test result: FAILED/ { for (at = 0; at < count; at++) print names[at] }
	' "$logs/$name")
	if [ "${#tests[@]}" -eq 0 ] || grep -q 'audit log violations: ' "$logs/$name"; then
		tail -n 20 "$logs/$name"
		exit 1
	fi
	echo "retry, alone: ${tests[*]}"
	cargo test --locked --workspace --test "$name" -- --exact --test-threads 1 "${tests[@]}" > "$logs/$name.again" 2>&1
	code=$?
	if [ "$code" -ne 0 ]; then
		cat "$logs/$name.again"
		exit "$code"
	fi
done
echo "FLAKY: passed only on retry: ${failed[*]}"
for name in "${failed[@]}"; do cat "$logs/$name.again"; done
