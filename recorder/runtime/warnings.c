#include "descriptors.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

const char *xr_warnings[XR_MAX_WARNINGS + 1];
int xr_quiet;

void xr_warn(const char *what, const char *detail)
{
	int i = 0;
	for (; xr_warnings[i]; i++)
		if (xr_warnings[i] == what)
			return;
	if (i == XR_MAX_WARNINGS)
		return;
	xr_warnings[i] = what;
	if (xr_quiet || xr_is_sealed())
		return;
	char room[1024];
	struct xr_text t = xr_text_in(room, sizeof room - 1);
	xr_put_text(&t, "xray recorder: ");
	xr_put_text(&t, what);
	if (detail) {
		xr_put_text(&t, ": ");
		xr_put_text(&t, detail);
	}
	room[t.n] = '\n';
	xr_write_stderr(room, t.n + 1);
}
