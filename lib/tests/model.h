/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of libhtw: steps of one handle, or of a handle and its shards
 *
 * What is done is chosen by the program: model-test draws it, library-fuzz takes it from an
 * input.
 */
#ifndef MODEL_H
#define MODEL_H

#include "../libhtw.h"
#include <stdbool.h>
#include <stdint.h>

struct model_mode {
	const char *name;
	enum htw_backend backend;
	bool shards;
};

/* Chosen by the program: a number from 0 to @n - 1, and any number. */
uint64_t below(uint64_t n);
uint64_t any(void);

/*
 * Open the sets of timers of a mode, take one step, close them. Where the library differs from
 * the model, that is printed as a comment of TAP, and the result is false. Then, too, close.
 */
bool model_open(const struct model_mode *mode);
bool model_step(void);
void model_close(void);

#endif
