#!/usr/bin/env bash
# Compiles the programs in src and records the traces of this folder anew; see
# README.md. Needs clang and llvm-xray 14, 19 and 22 with their XRay runtimes.
# Times, ids of threads and processes, and the order of blocks differ each time.
set -euo pipefail
cd "$(dirname "$0")"
out=$PWD
src=$PWD/src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# -gline-tables-only would do for locations; -g also gives the inline frames.
# The source paths in the debug information are made independent of this machine.
flags=(-O2 -g -fxray-instrument "-ffile-prefix-map=$src=src" -ffile-compilation-dir=. -Wall -Wextra
	-Wl,--gc-sections -Wl,--compress-debug-sections=zlib)

# compile VERSION PROGRAM SOURCE [FLAG...]
compile() {
	local version=$1 program=$2 source=$3
	shift 3
	"clang++-$version" -std=c++17 "${flags[@]}" "$src/$source" "$@" -o "$program"
}

# record TRACE COMMAND... runs the command, in basic mode unless it starts FDR
# mode itself, and keeps the one log that it writes.
record() {
	local trace=$1
	shift
	rm -f log.*
	"$@" 2>stderr || { cat stderr >&2; return 1; }
	mv log.* "$out/$trace"
	chmod 644 "$out/$trace"
}
# Programs that start FDR or profiling mode themselves.
fdr() { XRAY_OPTIONS="xray_logfile_base=log." record "$@"; }
basic() {
	XRAY_OPTIONS="patch_premain=true xray_mode=xray-basic xray_logfile_base=log." \
		XRAY_BASIC_OPTIONS="func_duration_threshold_us=0" record "$@"
}
map() { "llvm-xray-$1" extract -s "$2" -o "$out/$3"; }

compile 22 kvserver kvserver.cc -fxray-instruction-threshold=1 -pthread
basic kvserver-basic.xray ./kvserver basic 250 "$out/kvserver-basic.counts"
fdr kvserver-fdr.xray ./kvserver fdr 800 "$out/kvserver-fdr.counts"
fdr duplicate-block-fdr.xray ./kvserver fdr-flusher-first 40 "$out/duplicate-block-fdr.counts"
map 22 kvserver kvserver.yaml
cp kvserver "$out/kvserver"

# Under xray's own recorder, from a place that does not depend on this machine.
mkdir -p /tmp/xray-testdata
cp kvserver /tmp/xray-testdata/kvserver
(cd "$out/.." && go build -o "$work/xray" ./cmd/xray)
(cd /tmp/xray-testdata && "$work/xray" record -o "$out/kvserver-recorded.xray" -- ./kvserver basic 40 "$out/kvserver-recorded.counts")
chmod 644 "$out/kvserver-recorded.xray"
clang-22 -O1 -g -fno-optimize-sibling-calls -fxray-instrument -fxray-instruction-threshold=1 -pthread "$out/src/journal.c" -o /tmp/xray-testdata/journal
(cd /tmp/xray-testdata && "$work/xray" record --libcalls=all -o journal.xray -- ./journal /tmp/xray-testdata/journal.log)
"$work/xray" pack -o "$out/journal-recorded.xray" /tmp/xray-testdata/journal.xray
rm -r /tmp/xray-testdata

for v in 14 19; do
	compile $v clang$v kvserver.cc -fxray-instruction-threshold=1 -pthread
	basic clang$v-basic.xray ./clang$v basic 20 "$out/clang$v-basic.counts"
	fdr clang$v-fdr.xray ./clang$v fdr 40 "$out/clang$v-fdr.counts"
	map $v clang$v clang$v.yaml
done

for v in 14 22; do
	compile $v profiling$v profiling.cc -fxray-modes=xray-profiling -pthread
	fdr clang$v-profiling.xray ./profiling$v "$out/clang$v-profiling.counts"
	map $v profiling$v clang$v-profiling.yaml
done

compile 22 locks locks.cc -pthread
basic locks-basic.xray ./locks
map 22 locks locks.yaml

compile 22 pipeline pipeline.cc -pthread
fdr pipeline-fdr.xray ./pipeline
map 22 pipeline pipeline.yaml

compile 22 recursion recursion.cc
basic orphan-arguments-basic.xray ./recursion
map 22 recursion recursion.yaml

compile 14 typed typed.cc
fdr typed-event-fdr.xray ./typed

compile 22 ring ring.cc
fdr ring-overflow-fdr.xray ./ring
fdr header-only-fdr.xray ./ring empty

compile 22 fork fork.cc
basic fork-basic.xray ./fork
basic header-only-basic.xray ./fork exit
map 22 fork fork.yaml

compile 22 libcodec.so codec.cc -fPIC -shared -fxray-shared
compile 22 libaudio.so audio.cc -fPIC -shared -fxray-shared
compile 22 dso dso.cc -L. -l:libcodec.so -l:libaudio.so '-Wl,-rpath,$ORIGIN'
basic dso-basic.xray ./dso basic
fdr dso-fdr.xray ./dso fdr
for object in dso libcodec.so libaudio.so; do
	map 22 $object "${object%.so}.yaml"
done
