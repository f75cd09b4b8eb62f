// SPDX-License-Identifier: MIT
/*
 * The bytes that a node, a wheel and levels take, as columns of the table in docs/wheel.md
 */
#include "htw_wheel.h"
#include <stdio.h>

static void print(size_t bytes)
{
	const char *before = sizeof(void *) == 8 ? "| " : "";

	if (bytes < 1000)
		printf("%s%d |\n", before, (int)bytes);
	else
		printf("%s%d,%03d |\n", before, (int)bytes / 1000, (int)bytes % 1000);
}

int main(void)
{
	static const struct htw_geometry shapes[] = {
		{ 2, { 64, 64 } }, { 3, { 64, 64, 64 } }, { 3, { 256, 64, 64 } },
		{ 5, { 256, 64, 64, 64, 64 } }, { 3, { 60, 60, 24 } },
	};

	print(sizeof(struct htw_node));
	print(sizeof(struct htw_wheel));
	for (unsigned int i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		print(htw_geometry_bytes(&shapes[i]));
	return 0;
}
