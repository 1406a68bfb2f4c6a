# Run by gdb in testdata/unwind.c: steps from caller back to main through every
# instruction. Prints where the stack could not be unwound to both, and how many
# instructions of each function were stepped through. Functions in C are left at once,
# because the compiler provides the information about their frames.
import gdb

IN_C = {
    "xr_slow", "xr_profile_event", "xr_profile_inlined", "xr_depth_wants", "xr_custom_event", "xr_typed_event",
    "xr_gcc_id", "xr_gcc_enter", "xr_gcc_leave",
}


def names():
    found = []
    frame = gdb.newest_frame()
    while frame is not None:
        found.append(frame.name() or "?")
        frame = frame.older()
    return found


def steps():
    seen = {}
    while True:
        gdb.execute("stepi", to_string=True)
        frame = gdb.newest_frame()
        name = frame.name() or "?"
        if name == "main":
            return seen
        stack = names()
        # clang's sleds of events push registers without frame information, so the rest
        # of the stack is unreliable.
        if "events" in stack:
            stack = stack[:stack.index("events")] + ["caller", "main"]
        if "caller" not in stack or stack[-1] != "main":
            print("lost at", hex(frame.pc()), " < ".join(stack))
        seen.setdefault(name, set()).add(frame.pc())
        if name in IN_C:
            gdb.execute("finish", to_string=True)


gdb.execute("set debuginfod enabled off")
gdb.execute("set backtrace past-main off")
gdb.execute("break caller")
gdb.execute("run", to_string=True)
if gdb.newest_frame().name() != "caller":
    raise gdb.GdbError("caller was not reached")
for name, places in steps().items():
    print("stepped", name, len(places))
gdb.execute("kill")
