/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls for several timers: one by one, as a HTW_BATCH or as a HTW_VECTOR
 */
#ifndef TORTURE_SUBMIT_H
#define TORTURE_SUBMIT_H

#include <linux/htw.h>

#define SUBMIT_MOST	64

enum submit_form {
	SUBMIT_SINGLE,
	SUBMIT_BATCH,
	SUBMIT_VECTOR,	/* the operations differ in ids, deadlines and cookies only */
	SUBMIT_FORMS,
};

/*
 * Carry out operations of one kind. Each gets its result; a HTW_VECTOR gives no other output.
 * Return 0, or the negative errno of a call that failed as a whole.
 */
int submit(int fd, struct htw_op *ops, unsigned int n, enum submit_form form);

#endif /* TORTURE_SUBMIT_H */
