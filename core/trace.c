// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tracepoints of /dev/htw
 */

#include "alarm.h"
#include "context.h"
#include "user.h"

#define CREATE_TRACE_POINTS
#include <trace/events/htw.h>
