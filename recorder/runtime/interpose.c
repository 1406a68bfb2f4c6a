#include "internal.h"

uint32_t xr_sealed;
