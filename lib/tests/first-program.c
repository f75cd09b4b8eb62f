// SPDX-License-Identifier: MIT
/* A user's program, built against the installed library with pkg-config's flags. */
#include <libhtw.h>
#include <stdio.h>

int main(void)
{
	struct htw_event event;
	struct htw *timers;
	uint64_t id;

	if (htw_open(&timers, HTW_BACKEND_ANY, NULL))
		return 1;
	if (htw_after(timers, 1000000, 42, &id))
		return 1;
	if (htw_wait(timers, -1) != 1 || htw_read(timers, &event, 1) != 1)
		return 1;
	printf("libhtw %s: timer %llx with cookie %llu came %llu ns after its time\n",
	       htw_version(), (unsigned long long)event.id, (unsigned long long)event.cookie,
	       (unsigned long long)(event.taken - event.deadline));
	htw_close(timers);
	return event.id == id && event.cookie == 42 ? 0 : 1;
}
