/* Symbols that shared objects built with -fxray-shared need if compiler-rt is not linked. The
 * recorder finds their sleds without this registration. */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default"), weak))

EXPORT int32_t __xray_register_dso(const void *sleds, const void *sleds_end, const void *functions,
				   const void *functions_end, void *first_entry, void *first_exit)
{
	(void)sleds, (void)sleds_end, (void)functions, (void)functions_end, (void)first_entry, (void)first_exit;
	return -1;
}

EXPORT int32_t __xray_deregister_dso(int32_t object)
{
	(void)object;
	return 1;
}

/* The handlers of namespace __xray. */
EXPORT void *xray_patched_function __asm__("_ZN6__xray19XRayPatchedFunctionE");
EXPORT void *xray_arg_logger __asm__("_ZN6__xray13XRayArgLoggerE");
EXPORT void *xray_patched_custom_event __asm__("_ZN6__xray22XRayPatchedCustomEventE");
EXPORT void *xray_patched_typed_event __asm__("_ZN6__xray21XRayPatchedTypedEventE");
