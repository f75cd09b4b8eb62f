// SPDX-License-Identifier: MIT
/* The program of README.md that needs no module; built against the installed library as well. */
#include <stdio.h>
#include <libhtw.h>

int main(void)
{
	struct htw_event event;
	struct htw *timers;

	/* The module, if it is loaded; else in the process. */
	if (htw_open(&timers, HTW_BACKEND_ANY, NULL) < 0 ||
	    htw_after(timers, 50 * HTW_MSEC, 42, NULL) < 0)
		return 1;
	if (htw_wait(timers, -1) != 1 || htw_read(timers, &event, 1) != 1)
		return 1;
	printf("timer %d, %d us late\n", (int)event.cookie,
	       (int)((event.taken - event.deadline) / HTW_USEC));
	htw_close(timers);
	return event.cookie != 42;
}
