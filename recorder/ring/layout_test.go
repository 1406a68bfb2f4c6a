//go:build linux && amd64

package ring

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

var update = flag.Bool("update", false, "rewrite layout.go")

// layout has all that Go repeats of the runtime's headers: names in Go, each with its field of a struct or its
// expression in C. A field stands for its offset, .field for its size, and a dot for the size of the struct.
// A new name goes to layout.go by -update before Go uses it.
var layout = []struct{ of, names string }{
	{"struct xr_root", `
		rootVersionAt version, rootSizeAt size, rootChunkSizeAt chunk_size, rootChunkHeaderAt chunk_header,
		rootThreadSizeAt thread_size, rootObjectSizeAt object_size, rootPIDAt pid, rootModeAt mode, rootThresholdAt threshold,
		rootThreadsAt threads, rootNThreadsAt nthreads, rootObjectsAt objects, rootNObjectsAt nobjects,
		rootMaxFunctionAt max_function, rootFrequencyAt frequency, rootStartAt start, rootDroppedAt dropped, rootDepthAt depth,
		rootInvariantAt invariant, rootHookedAt hooked, rootNHookedAt nhooked, rootSessionAt session, rootWindowNSAt window_ns,
		rootEveryNSAt every_ns, rootWindowsAt windows, rootNWindowsAt nwindows, rootBudgetAt budget, rootValuesChangesAt values_changes`},
	{"struct xr_anchor", "anchorTSCAt tsc, anchorRawAt raw, anchorRealAt real, anchorWidthAt width"},
	{"struct xr_hooked", "HookedAddressAt address, HookedIDAt id, HookedSize ."},
	{"struct xr_sampled", "SampledNAt n, SampledIDsAt ids, sampledIDsSize .ids"},
	{"struct xr_budget", "BudgetOnAt on, BudgetSpentAt exhausted, BudgetDecidedAt decisions, BudgetSampledAt sampled, budgetShareAt share"},
	{"struct xr_thread", `
		threadCursorAt cursor, threadCountersAt counters, threadTIDAt tid, threadPIDAt pid, threadStateAt state, threadRingAt ring,
		threadChunksAt nchunks, threadTakenAt taken, threadFirstAt first, threadLastAt last, threadDroppedAt dropped,
		threadTruncatedAt truncated, threadNameAt name, threadNCountersAt ncounters, threadFramesAt frames,
		threadSumsAt sums, threadNSumsAt nsums, ThreadOffAt off, threadGoneAt gone, threadNameSize .name`},
	{"struct xr_offcpu", "OffCheckedAt checked, OffNSAt off, OffQueuedAt queued, OffLeftAt left, OffKeptAt kept, OffKeepsAt keeps, OffSize ."},
	{"struct xr_switch", "SwitchOffAt off, SwitchQueuedAt queued, SwitchRecorderAt recorder"},
	{"struct xr_sum", "SumCallsAt calls, SumTicksAt ticks, SumSize ."},
	{"struct xr_object", `
		objectBiasAt bias, objectTextFirstAt text_first, objectTextEndAt text_end, objectFirstIDAt first_id,
		objectFunctionsAt nfunctions, objectLoadedAt loaded, objectUnloadedAt unloaded, objectStateAt state,
		objectBuildIDSizeAt build_id_size, objectBuildIDAt build_id, objectWhyAt why, objectPathAt path, objectAbsentAt absent,
		objectBuildIDRoom .build_id, objectWhySize .why, objectPathSize .path`},
	{"struct xr_chunk", `
		ChunkSeqAt seq, ChunkFirstAt first, ChunkLastAt last, ChunkThreadAt thread, ChunkMagicAt magic, ChunkStreamedAt streamed,
		ChunkUsedAt used, ChunkWallAt wall`},
	{"struct xr_window", "WindowFromAt from, WindowToAt to, WindowCPUAt cpu_ns, WindowSize ."},
	{"struct xr_memory", "memoryLimitAt limit, memoryUsedAt used, memoryPeakAt peak, memoryGivenAt given, memoryGivenChunksAt given_chunks"},
	{"struct xr_arena", `
		arenaVersionAt version, arenaSlotSizeAt slot_size, arenaProcessSizeAt process_size, arenaChunkSizeAt chunk_size,
		arenaSizeAt size, ArenaBaseAt base, arenaNextAt next, arenaSessionAt session, ArenaNSlotsAt nslots, ArenaNProcsAt nprocesses,
		arenaSlotsAt slots_at, arenaProcsAt processes_at, arenaStreamAt stream, arenaDropAt drop, arenaBeatAt beat,
		ArenaBellAt doorbell, ArenaClosedAt closed, ArenaKeeperAt keeper, ArenaFreeAt nfree, ArenaLimitsAt limits_at,
		ArenaSpentAt exhausted, ArenaDecidedAt decisions, ArenaSampledAt sampled, arenaPlanAt schedule, ArenaSealedAt sealed`},
	{"struct xr_slot", `
		SlotStateAt state, SlotProcessAt process, SlotTIDAt tid, SlotOwnerAt owner, SlotRingAt ring, SlotChunksAt nchunks,
		SlotTakenAt taken, SlotConsumedAt consumed, SlotWaitingAt waiting, SlotFirstAt first, SlotLastAt last,
		SlotDroppedAt dropped, SlotTruncatedAt truncated, SlotWaitedAt waited, SlotNameAt name, SlotCountersAt counters,
		SlotNCountersAt ncounters, SlotProfileAt profile, SlotSumsAt sums, SlotNSumsAt nsums, SlotWritingAt writing,
		slotGoneAt gone, SlotSize .`},
	{"struct xr_process", `
		ProcessStateAt state, ProcessPIDAt pid, ProcessPPIDAt ppid, ProcessSinceAt since, ProcessFlushAskedAt flush_asked,
		ProcessFlushDoneAt flush_done, ProcessTextsAt texts, ProcessTextAt text, ProcessTextSizeAt text_size,
		ProcessDroppedAt dropped, ProcessHookedAt hooked, ProcessNHookedAt nhooked, ProcessWindowsAt windows,
		ProcessNWindowsAt nwindows, ProcessSpaceAt space, ProcessEndedAt ended, processMemoryAt memory, processSize .`},
	{"struct xr_hello", "HelloVersionAt version, HelloPIDAt pid, HelloSessionAt session, HelloKeyAt key, HelloSize ."},
	{"struct xr_question", `
		QuestionSessionAt session, QuestionFunctionsAt nfunctions, QuestionBuildIDSizeAt build_id_size, QuestionBuildIDAt build_id,
		QuestionPathAt path, QuestionKeyAt key, QuestionSize ., QuestionPathSize .path`},
	{"struct xr_profile", `
		ProfileDepthAt depth, ProfileLastAt last, ProfileLostAt lost, ProfileTIDAt tid, ProfileOwnersAt owners, ProfilePathsAt npaths,
		ProfileFirstAt first, ProfilePagesAt pages, ProfileTopAt top, ProfileFramesAt frames, ProfileDeepAt deep,
		ProfileNDeepAt ndeep, ProfileBucketsAt buckets, ProfileFoldsAt folds, ProfileNFoldsAt nfolds, ProfileSize .`},
	{"struct xr_path", `
		PathParentAt parent, PathFuncAt id, PathTicksAt ticks, PathMinAt min, PathMaxAt max, PathFoldedAt folded,
		PathFoldedTicksAt folded_ticks, PathCallsAt calls, PathSwitchesAt switches, PathOffAt off, PathQueuedAt queued, PathSize .`},
	{"struct xr_left", "LeftCallsAt calls, LeftTicksAt ticks, LeftSize ."},
	{"struct xr_path_page", "PathPagePathsAt paths, PathPageLeftAt left, PathPageSize ."},
	{"struct xr_fold", `
		FoldAnyAt any, FoldCallerAt caller, FoldInsideAt inside, FoldNestedAt nested, FoldLeftAt left, FoldLeftNestedAt left_nested,
		FoldSize .`},
	{"struct xr_fold_page", "FoldPageFoldsAt folds, FoldPageSize ."},
	{"struct xr_frame", "FrameStartAt start, FramePathAt path, FrameSize ."},
	{"", `
		LayoutVersion XR_ROOT_VERSION, ChunkSize XR_CHUNK_SIZE, ChunkHeader XR_CHUNK_HEADER, ChunkMagic XR_CHUNK_MAGIC,
		MaxHooked XR_MAX_HOOKED, WindowRows XR_WINDOWS, MaxLimits XR_LIMITS, ChargesAt XR_CHARGES_AT, LimitsSize XR_LIMITS_SIZE,
		Unlimited XR_UNLIMITED, TrialCalls XR_TRIAL,
		ArenaVersion XR_ARENA_VERSION, maxSlots XR_ARENA_SLOTS, maxProcesses XR_ARENA_PROCESSES, MaxArenaText XR_ARENA_TEXT,
		ArenaNaps XR_NAPS, ArenaSleepsLong XR_SLEEPS_LONG, KeySize XR_KEY_SIZE`},
	{"", "RootMagic XR_ROOT_MAGIC, ArenaMagic XR_ARENA_MAGIC, SelectMagic XR_SELECT_MAGIC, LeftMagic XR_LEFT_MAGIC"},
	{"", "modeOff XR_OFF, modeRecord XR_RECORD, modePrune XR_PRUNE, ModeCount XR_COUNT, ModeProfile XR_PROFILE, modeDepth XR_DEPTH"},
	{"", "threadFree XR_THREAD_FREE"},
	{"", "SlotFree XR_SLOT_FREE, SlotTaken XR_SLOT_TAKEN, SlotLive XR_SLOT_LIVE, SlotEnded XR_SLOT_ENDED, SlotDone XR_SLOT_DONE"},
	{"", "ProcessFree XR_PROCESS_FREE, processTaken XR_PROCESS_TAKEN, ProcessLive XR_PROCESS_LIVE"},
	{"", `
		RecordStamp XR_REC_STAMP, recordArg XR_REC_ARG, RecordCustom XR_REC_CUSTOM, RecordTyped XR_REC_TYPED,
		recordResult XR_REC_RESULT, FunctionExit XR_EXIT, FunctionTail XR_TAIL, maxPayload XR_MAX_PAYLOAD`},
	{"", `
		ProfilePathDepth XR_PATH_DEPTH, ProfileMaxPaths XR_MAX_PATHS, ProfilePathsOfPage XR_PAGE_PATHS,
		ProfileFoldsOfPage XR_PAGE_FOLDS, ProfileBuckets XR_FOLD_BUCKETS, ProfileAnyCaller XR_ANY_CALLER`},
}

// equal has numbers that formats share with the runtime.
var equal = map[string]any{
	"XR_PROFILE_OCTAVES": reader.ProfileOctaves, "XR_MAX_FUNCTION": 1<<28 - 1,
	"XR_META_PROCESS": reader.MetadataProcess, "XR_META_OBJECTS": reader.MetadataObjects, "XR_META_THREADS": reader.MetadataThreads,
	"XR_META_CLOCK": reader.MetadataClock, "XR_META_LOSSES": reader.MetadataLosses, "XR_META_ADDRESSES": reader.MetadataAddresses,
	"XR_META_COUNTERS": reader.MetadataCounters, "XR_META_CHANGES": reader.MetadataChanges, "XR_META_PROFILE": reader.MetadataProfile,
	"XR_META_PRUNED": reader.MetadataPruned, "XR_META_PROFILE_OFF": reader.MetadataProfileOff, "XR_META_MARK": reader.MetadataMark,
	"XR_META_REQUEST": reader.MetadataRequest, "XR_META_LANDING": reader.MetadataLanding, "XR_META_NAME": reader.MetadataName,
	"XR_META_SWITCH": reader.MetadataSwitch, "XR_META_RESULT": reader.MetadataResult, "XR_META_DESCRIPTOR": reader.MetadataDescriptor,
	"XR_META_BUDGET": reader.MetadataBudget, "XR_META_WINDOWS": reader.MetadataWindows, "XR_META_EDGE": reader.MetadataEdge,
	"XR_META_CUT": reader.MetadataCut, "XR_META_VALUE": reader.MetadataValue, "XR_META_VALUES": reader.MetadataValues,
	"XR_META_PART": reader.MetadataPart, "XR_META_STACKS": reader.MetadataStacks, "XR_META_CHECKSUM": reader.MetadataChecksum,
}

// layout.go has the numbers of the runtime's headers. -update rewrites it.
func TestLayout(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	want.WriteString("// Code generated by TestLayout from the headers of recorder/runtime. DO NOT EDIT.\n\npackage ring\n")
	values := evaluate(t)
	for _, part := range layout {
		if part.of != "" {
			fmt.Fprintf(&want, "\n// %s", part.of)
		}
		want.WriteString("\nconst (\n")
		for row := range strings.SplitSeq(part.names, ",") {
			name := strings.Fields(row)[0]
			fmt.Fprintf(&want, "%s = %s\n", name, values[name])
		}
		want.WriteString(")\n")
	}
	text, err := format.Source(want.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("layout.go", text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("layout.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(text)); diff != "" {
		t.Errorf("run go test ./recorder/ring -run TestLayout -update (-layout.go +headers):\n%s", diff)
	}
	for name, number := range equal {
		if fmt.Sprintf("%d", number) != values[name] {
			t.Errorf("%s is %s in the runtime and %d in package reader", name, values[name], number)
		}
	}
}

// evaluate returns the values of all names of layout and equal, as Go writes them.
func evaluate(t *testing.T) map[string]string {
	testenv.Need(t, "cc")
	var c strings.Builder
	c.WriteString(`#include <stdio.h>
#include "arena.h"
#include "budget.h"
#include "profile.h"
int main(void) {
`)
	put := func(name, value string) {
		fmt.Fprintf(&c, "printf(\"%s %%llu\\n\", (unsigned long long)(%s));\n", name, value)
	}
	for _, part := range layout {
		for row := range strings.SplitSeq(part.names, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(row), " ")
			switch {
			case value == ".":
				put(name, fmt.Sprintf("sizeof(%s)", part.of))
			case value[0] == '.':
				put(name, fmt.Sprintf("sizeof(((%s *)0)->%s)", part.of, value[1:]))
			case part.of != "":
				put(name, fmt.Sprintf("offsetof(%s, %s)", part.of, value))
			case strings.HasSuffix(value, "_MAGIC") && value != "XR_CHUNK_MAGIC":
				fmt.Fprintf(&c, "puts(\"%s \" %s);\n", name, value)
			default:
				put(name, value)
			}
		}
	}
	for name := range equal {
		put(name, name)
	}
	c.WriteString("}\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(c.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	runtime, err := filepath.Abs("../runtime")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-std=gnu11", "-I", runtime, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasSuffix(name, "Magic") && name != "ChunkMagic" {
			value = fmt.Sprintf("%q", value+strings.Repeat("\x00", 16-len(value)))
		}
		values[name] = value
	}
	return values
}
