// SPDX-License-Identifier: GPL-2.0-only
/* Commands of io_uring: what the ioctls promise, and the rest of the SQE */
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include "areas.h"
#include "subject.h"

/* From the kernel's header; that of liburing 2.3 has no name for it. */
#define SQE_CMD		48

bool by_uring;
static struct io_uring ring;

static int submit(int fd, unsigned long cmd, struct htw_uring_args args, unsigned int flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	struct io_uring_cqe *cqe;
	int ret;

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = cmd;
	sqe->rw_flags = flags;
	memcpy((char *)sqe + SQE_CMD, &args, sizeof(args));
	if (io_uring_submit_and_wait(&ring, 1) != 1 || io_uring_peek_cqe(&ring, &cqe)) {
		fprintf(stderr, "htw-compliance: io_uring does not complete\n");
		exit(1);
	}
	ret = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return ret;
}

int make_call(int fd, unsigned long cmd, void *arg)
{
	const struct htw_uring_args args = { .arg = (uintptr_t)arg };

	if (by_uring && (cmd == HTW_ADD || cmd == HTW_CANCEL || cmd == HTW_MOD ||
			 cmd == HTW_VECTOR))
		return submit(fd, cmd, args, 0);
	return htw_call(fd, cmd, arg);
}

static void check_sqe(void)
{
	static const unsigned long others[] = {
		HTW_SETUP, HTW_INFO, HTW_QUERY, HTW_CANCEL_ALL, HTW_LIST, HTW_HARVEST, HTW_ADVANCE,
	};
	struct subject s = open_witnessed();
	struct htw_add_args add = valid_add();
	struct htw_uring_args args = { .arg = (uintptr_t)&add };
	struct iovec buffer = { &add, sizeof(add) };
	unsigned char arg[256];

	group("io_uring");
	begin("reserved: EINVAL for each bit");
	remember(&s);
	for (unsigned int bit = 0; bit < 64; bit++) {
		args.reserved = 1ULL << bit;
		expect_result("HTW_ADD", -EINVAL, submit(s.fd, HTW_ADD, args, 0));
	}
	args.reserved = 0;
	begin("a flag of IORING_OP_URING_CMD is EINVAL");
	io_uring_register_buffers(&ring, &buffer, 1);
	expect_result("HTW_ADD", -EINVAL, submit(s.fd, HTW_ADD, args, IORING_URING_CMD_FIXED));
	expect_number("id", POISON, add.id);
	expect_same_state(&s, "after it");

	begin("other commands are ENOTTY");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		memset(arg, 0xa5, sizeof(arg));
		args.arg = (uintptr_t)arg;
		expect_result("the command", -ENOTTY, submit(s.fd, others[i], args, 0));
		for (size_t k = 0; k < sizeof(arg); k++)
			expect(arg[k] == 0xa5, "byte %zu of the argument was written to", k);
	}
	expect_same_state(&s, "after them");
	close_subject(&s);
}

void check_uring(void)
{
	int ret = io_uring_queue_init(8, &ring, 0);

	if (ret) {
		fprintf(stderr, "htw-compliance: no io_uring: %s\n", strerror(-ret));
		return;
	}
	check_sqe();
	by_uring = true;
	check_add();
	check_cancel();
	check_mod();
	check_vector();
	by_uring = false;
	io_uring_queue_exit(&ring);
}
