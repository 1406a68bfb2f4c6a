/* The table of calls upwards. */
#include "control.h"
#include "hooks.h"
#include "later.h"
#include "lifecycle.h"
#include "llvm_api.h"
#include "metadata.h"
#include "patch.h"
#include "writer.h"

/* handlers_amd64.S */
xr_function xr_handle_enter, xr_handle_exit, xr_handle_arg, xr_handle_custom, xr_handle_typed, xr_handle_keep;

const struct xr_above xr_above = {
	.stream = xr_stream,
	.count_records = xr_count_records,
	.thread_gone = xr_thread_gone,
	.later_save = xr_later_save,
	.forked = xr_forked,
	.open_pending = xr_open_pending,
	.lost_observer = xr_lost_observer,
	.put_tables = xr_put_tables,
	.only_exits_on = xr_only_exits_on,
	.patch_changed = xr_patch_changed,
	.set_mode = xr_set_mode,
	.program_admit = xr_program_admit,
	.handler_of = xr_handler_of,
	.handle = {xr_handle_enter, xr_handle_exit, xr_handle_arg, xr_handle_custom, xr_handle_typed, xr_handle_keep},
	.control_exists = xr_control_exists,
};
