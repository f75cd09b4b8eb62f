// SPDX-License-Identifier: MIT
/*
 * Misuse that HTW_ASSERT finds, as the program defines it. Both files are built with it.
 */
#include "misuse.h"
#include "htw_wheel.h"
#include <stdio.h>

int broken;

#define CHECK(condition) do {						\
	if (!(condition)) {						\
		printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);	\
		return 1;						\
	}								\
} while (0)

int main(void)
{
	static const struct htw_geometry geometry = { 1, { 64 } };
	static uint64_t memory[HTW_GEOMETRY_WORDS(1, 64)];
	static struct htw_node a, b;
	struct htw_wheel wheel, other;

	htw_wheel_init(&wheel, 0);
	htw_wheel_start(&wheel, &a, 1);
	htw_wheel_start(&wheel, &b, 1);
	CHECK(!broken);
	htw_wheel_stop(&wheel, &a);
	htw_wheel_stop(&wheel, &b);
	htw_wheel_add_levels(&wheel, &geometry, memory, sizeof(memory));
	CHECK(!broken);

	htw_wheel_start(&wheel, &a, 1);
	htw_wheel_remove_levels(&wheel);
	CHECK(broken == 1);

	htw_wheel_init(&wheel, 0);
	htw_node_init(&a);
	htw_wheel_start(&wheel, &a, 1);
	htw_wheel_start(&wheel, &a, 2);
	CHECK(broken == 2);

	broken = 0;
	htw_wheel_init(&wheel, 0);
	htw_wheel_init(&other, 0);
	htw_node_init(&a);
	htw_node_init(&b);
	htw_wheel_start(&wheel, &a, 1);
	htw_wheel_start(&other, &b, 1);
	CHECK(htw_wheel_holds(&wheel, &a) && !htw_wheel_holds(&other, &a));
	htw_wheel_restart(&other, &a, 1);
	CHECK(broken == 1);
	htw_wheel_stop(&wheel, &b);
	CHECK(broken == 2);
	return 0;
}
