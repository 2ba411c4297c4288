#!/usr/bin/env bash
# Every test of the workspace, as `make test` runs them: first what computes, one program after the other, then the programs of the
# package e2e side by side, as these wait most of their time. What one of those says is shown when it ends, in one piece.
#
# A test of e2e, which shares the machine with control planes, kubelets and agents, gets one more try, alone, and both are
# said. Every other test has one try, and so has a program of tests that ended without saying which of its tests failed, or that found
# in an audit log what must not happen (chaos). Random tests draw the same worlds every time; any others: `PROPTEST_RNG_SEED=7 make test`.
set -uo pipefail

# How cargo calls this script in the first part: as what runs a program of tests, in the folder and environment that it should have.
if [ "${1-}" = --run ]; then
	shift
	name=${1##*/}
	name=${name%-*}
	if [ "${CARGO_PKG_NAME-}" = e2e ] && [ "$name" != e2e ]; then
		echo "$name" >> "$LATER"
		echo "later, beside others of its package"
		exit 0
	fi
	exec "$@"
fi

export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-2026}
# How many programs of e2e run at once, and how many tests of `product` (product/installed.rs).
beside=${CAIRN_TESTS_BESIDE:-3}
stages=3
# Those that take longest, in this order, begin first.
longest=(product metrics real_nodes footprint chaos leaving)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export LATER=$logs/later
: > "$LATER"

runner="target.'cfg(all())'.runner = ['$here/test.sh', '--run']"
cargo test --locked --workspace --no-fail-fast --tests --config "$runner" 2>&1 | tee "$logs/first"
status=${PIPESTATUS[0]}
# nothing to run: it was not compiled, and cargo said why
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
# Waits until one of those that run ends, and shows what it said.
one_ends() {
	local ended code
	wait -n -p ended "${!running[@]}"
	code=$?
	cat "$logs/${running[$ended]}"
	shown=$((shown + 1))
	[ "$code" -eq 0 ] || failed+=("${running[$ended]}")
	unset "running[$ended]"
}
for name in "${programs[@]}"; do
	[ "${#running[@]}" -lt "$beside" ] || one_ends
	threads=()
	[ "$name" != product ] || threads=("--test-threads=$stages")
	cargo test --locked --workspace --test "$name" -- "${threads[@]}" > "$logs/$name" 2>&1 &
	running[$!]=$name
done
while [ "${#running[@]}" -gt 0 ]; do one_ends; done
if [ "$shown" -ne "${#all[@]}" ]; then
	echo "$shown of ${#all[@]} programs of e2e were run: this is a mistake in ${BASH_SOURCE[0]}" >&2
	exit 1
fi

if [ "$status" -ne 0 ]; then
	# said above, before much else
	for log in "$logs/first" "$logs/doc"; do sed -nE '/^error: [0-9]+ (target|doctest)/,$p' "$log"; done
	exit "$status"
fi
[ "${#failed[@]}" -gt 0 ] || exit 0

for name in "${failed[@]}"; do
	# what stands under the last `failures:` of this program: the names, one a line
	mapfile -t tests < <(awk '
		/^failures:$/  { delete names; count = 0 }
		/^    [A-Za-z0-9_:]+$/ { names[count++] = $1 }
		/^test result: FAILED/ { for (at = 0; at < count; at++) print names[at] }
	' "$logs/$name")
	if [ "${#tests[@]}" -eq 0 ] || grep -q 'what must not happen did' "$logs/$name"; then
		tail -n 20 "$logs/$name"
		exit 1
	fi
	echo "one more try, alone: ${tests[*]}"
	cargo test --locked --workspace --test "$name" -- --exact --test-threads 1 "${tests[@]}" > "$logs/$name.again" 2>&1
	code=$?
	if [ "$code" -ne 0 ]; then
		cat "$logs/$name.again"
		exit "$code"
	fi
done
echo "FLAKY: green only when tried again: ${failed[*]}"
for name in "${failed[@]}"; do cat "$logs/$name.again"; done
