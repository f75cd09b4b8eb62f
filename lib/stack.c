// SPDX-License-Identifier: MIT
/* Find out whether a function was left by longjmp(); see stack.h */
#include "stack.h"

#include <unwind.h>

/*
 * They are there wherever a cleanup handler can be called for an exception. Where
 * they are not, as with musl in a program of C, a thread that has left a call by
 * longjmp() has to dispatch again from no deeper in its stack.
 */
#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_FindEnclosingFunction
#pragma weak _Unwind_GetCFA
#pragma weak _Unwind_GetIP

/**
 * struct search - for a frame, from callee to caller
 * @frame: the frame
 * @previous: function of the frame before
 * @live: the frame was found
 * @over: the place where it was has been reached
 */
struct search {
	const struct stack_frame *frame;
	void *previous;
	bool live;
	bool over;
};

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *arg)
{
	struct search *s = arg;
	const uintptr_t start = _Unwind_GetCFA(context), end = (uintptr_t)s->frame->end;

	/* A frame starts where that of its callee ends. */
	if (start >= end) {
		s->live = start == end && s->previous == s->frame->function;
		s->over = true;
		return _URC_END_OF_STACK;
	}
	s->previous = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
	return _URC_NO_REASON;
}

/**
 * stack_is_live() - is a function still on this thread's stack?
 * @f: its frame, which is above the caller's
 *
 * If there is a function in between that cannot be unwound, it is assumed to be.
 */
bool stack_is_live(const struct stack_frame *f)
{
	struct search s = { .frame = f };

	if (_Unwind_Backtrace)
		_Unwind_Backtrace(look_at_frame, &s);
	return s.live || !s.over;
}
