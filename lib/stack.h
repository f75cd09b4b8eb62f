/* SPDX-License-Identifier: MIT */
/* Find out whether a function was left by longjmp(). */
#ifndef LIBHTW_STACK_H
#define LIBHTW_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* For a function that is looked for: it is not inlined or cloned, even with -flto. */
#if __has_attribute(__noipa__)
#define STACK_OWN_FRAME	__attribute__((__noipa__))
#else
#define STACK_OWN_FRAME	__attribute__((__noinline__))
#endif

/**
 * struct stack_frame - a function on a thread's stack
 * @function: the function
 * @address: of its frame
 * @end: of its frame: the canonical frame address
 */
struct stack_frame {
	void *function;
	void *address;
	void *end;
};

/* That of the caller, whose name is @fn. */
#define stack_here(fn)							\
	((struct stack_frame){						\
		.function = (void *)(fn),				\
		.address = __builtin_frame_address(0),			\
		.end = __builtin_dwarf_cfa(),				\
	})

/*
 * Could a frame be of something that the function has called, in the same
 * thread? Stacks grow down. After longjmp() to a caller of the function, which
 * has called something deeper since, the answer is wrong, and stack_is_live()
 * knows better.
 */
static inline bool stack_is_within(const struct stack_frame *f, const void *frame)
{
	return (uintptr_t)frame < (uintptr_t)f->address;
}

bool stack_is_live(const struct stack_frame *f);

#endif /* LIBHTW_STACK_H */
