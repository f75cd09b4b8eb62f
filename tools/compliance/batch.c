// SPDX-License-Identifier: GPL-2.0-only
/* HTW_BATCH */
#include "areas.h"
#include "subject.h"

static const struct call the_call = { "HTW_BATCH", HTW_BATCH, 0, sizeof(struct htw_batch) };

static struct htw_op op_add(void)
{
	return (struct htw_op){
		.op = HTW_OP_ADD, .result = POISON32, .add = valid_add(),
	};
}

static void stop_all(const struct subject *s, const struct htw_op *ops, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		expect_result("HTW_CANCEL of the added timer", 0, stop(s, ops[i].add.id, 0));
}

static void check_batch_entries(struct subject *s)
{
	static const __u16 no_ops[] = { 0, 5, 6, 7, 0xff, 0x100, 0x101, 0x7fff, 0x8001, 0xffff };
	struct htw_op ops[5], before;
	struct htw_batch batch;

	begin("several operations, in order, each with its own result");
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_add();
	ops[1].add.reserved = 1;
	ops[3] = (struct htw_op){ .op = HTW_OP_CANCEL, .result = POISON32,
				  .cancel = htw_cancel_of(0, 0) };
	before = ops[1];
	before.result = -EINVAL;
	batch = htw_batch_of(ops, 5);
	expect_result("the call", 0, htw_call(s->fd, HTW_BATCH, &batch));
	expect_number("done", 5, batch.done);
	expect_result("result 0", 0, ops[0].result);
	expect_result("result 1, with a reserved field", -EINVAL, ops[1].result);
	expect_result("result 2", 0, ops[2].result);
	expect_result("result 3, a cancel of id 0", -ENOENT, ops[3].result);
	expect_result("result 4", 0, ops[4].result);
	expect(!memcmp(&before, &ops[1], sizeof(before)), "entry 1 was written to");
	ops[1] = ops[2];
	ops[2] = ops[4];
	stop_all(s, ops, 3);

	begin("ops[].op: EINVAL for an unknown operation");
	for (size_t i = 0; i < ARRAY_SIZE(no_ops); i++) {
		ops[0] = op_add();
		ops[0].op = no_ops[i];
		before = ops[0];
		before.result = -EINVAL;
		remember(s);
		batch = htw_batch_of(ops, 1);
		expect_result("the call", 0, htw_call(s->fd, HTW_BATCH, &batch));
		expect_result("its result", -EINVAL, ops[0].result);
		expect(!memcmp(&before, &ops[0], sizeof(before)), "the entry was written to");
		expect_same_state(s, "after it");
	}
	begin("ops[].reserved: EINVAL for each bit");
	for (unsigned int bit = 0; bit < 16; bit++) {
		ops[0] = op_add();
		ops[0].reserved = 1 << bit;
		remember(s);
		batch = htw_batch_of(ops, 1);
		expect_result("the call", 0, htw_call(s->fd, HTW_BATCH, &batch));
		expect_result("its result", -EINVAL, ops[0].result);
		expect_same_state(s, "after it");
	}
	if (has(HTW_FEATURE_MOD))
		return;
	begin("ops[].op: EINVAL for HTW_OP_MOD and HTW_OP_QUERY without the feature");
	for (unsigned int i = 0; i < 2; i++) {
		ops[0] = (struct htw_op){ .op = i ? HTW_OP_QUERY : HTW_OP_MOD };
		batch = htw_batch_of(ops, 1);
		expect_result("the call", 0, htw_call(s->fd, HTW_BATCH, &batch));
		expect_result("its result", -EINVAL, ops[0].result);
	}
}

/* An array of which only some entries are in accessible memory. */
static void check_batch_cut(struct subject *s)
{
	static const unsigned int usable[] = { 1, 63, 64, 65, 200 };
	struct htw_batch batch;
	struct htw_op *ops;

	begin("done: entries before the first inaccessible one");
	for (size_t i = 0; i < ARRAY_SIZE(usable); i++) {
		ops = before_hole(usable[i] * sizeof(*ops));
		for (unsigned int k = 0; k < usable[i]; k++)
			ops[k] = op_add();
		batch = htw_batch_of(ops, i % 2 ? ~0U : usable[i] + 1);
		remember(s);
		expect_result("the call", 0, htw_call(s->fd, HTW_BATCH, &batch));
		expect_number("done", usable[i], batch.done);
		expect_number("timers", s->info.timers + usable[i], info_of(s).timers);
		for (unsigned int k = 0; k < usable[i]; k++)
			expect_result("a result", 0, ops[k].result);
		stop_all(s, ops, usable[i]);
	}

	begin("ops: EFAULT if none can be read, and nothing is done");
	for (size_t i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		batch = htw_batch_of((void *)bad_addresses[i], 1);
		remember(s);
		expect_result("the call", -EFAULT, htw_call(s->fd, HTW_BATCH, &batch));
		expect(batch.done == POISON32 || !batch.done, "done is %u", batch.done);
		expect_same_state(s, "after it");
	}
	begin("ops: EFAULT if none can be written, and done is zero");
	batch = htw_batch_of(read_only(&(struct htw_op[]){ op_add() }, sizeof(*ops)), 1);
	expect_result("the call", -EFAULT, htw_call(s->fd, HTW_BATCH, &batch));
	expect(batch.done == POISON32 || !batch.done, "done is %u", batch.done);
}

void check_batch(void)
{
	struct subject s = open_witnessed();
	struct htw_op ops[2] = { op_add(), op_add() };
	struct htw_batch batch, valid = htw_batch_of(ops, 1);

	group("HTW_BATCH");
	begin("count: no entry after it is used");
	batch = valid;
	expect_result("the call", 0, htw_call(s.fd, HTW_BATCH, &batch));
	expect_number("done", 1, batch.done);
	batch.done = POISON32;
	expect(!memcmp(&batch, &valid, sizeof(batch)), "more than done was written");
	expect_result("its result", 0, ops[0].result);
	expect_number("the result after it", (__s32)POISON32, ops[1].result);
	expect_number("timers", 2, info_of(&s).timers);
	stop_all(&s, ops, 1);
	begin("count: zero");
	batch = htw_batch_of(NULL, 0);
	expect_result("the call", 0, htw_call(s.fd, HTW_BATCH, &batch));
	expect_number("done", 0, batch.done);

	check_batch_entries(&s);
	check_batch_cut(&s);
	close_subject(&s);

	s = open_witnessed();
	FAILS_WITH_BITS(&s, &the_call, &valid, flags, 0);
	FAILS_WITH_BITS(&s, &the_call, &valid, reserved0, 0);
	FAILS_WITH_BITS(&s, &the_call, &valid, reserved, 0);
	fails_with_pointers(&s, &the_call, &valid);
	begin("argument: EFAULT if it cannot be written; the entry has its result");
	ops[0] = op_add();
	expect_result("the call", -EFAULT,
		      htw_call(s.fd, HTW_BATCH, read_only(&valid, sizeof(valid))));
	expect_number("timers", 1 + !ops[0].result, info_of(&s).timers);
	close_subject(&s);
}
