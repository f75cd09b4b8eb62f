// SPDX-License-Identifier: MIT
/*
 * The wheel's files in one source with a program's own list.h, in C and in C++
 */
#include <stdio.h>
#include "list.h"
#include "htw_wheel.h"
#include "htw_wheel.c"

int main(void)
{
	struct list_head list = { NULL };
	static struct htw_node n;
	struct htw_wheel wheel;
	u64 number = { 1, 2 };
	unsigned int budget = 10;

	htw_wheel_init(&wheel, 0);
	htw_wheel_start(&wheel, &n, 3);
	if (!list_add(&list) || !list_add_tail(&list) || !list_del(&list) || number.high != 2)
		return 1;
	return htw_wheel_expire(&wheel, 2, &budget) || htw_wheel_expire(&wheel, 3, &budget) != &n;
}
