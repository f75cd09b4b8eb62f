// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any number may be given for an id
 *
 * In every call that takes one, a number is the id of a timer of that handle, or -ENOENT, and
 * then nothing has changed. The numbers are random ones, small ones, errors, ids that have
 * ended, ids of other handles, and all those near them. Which ids are in use is known here.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include "../libhtw.h"

#define HOUR		(3600 * HTW_SEC)
#define POISON		0xa5a5a5a5a5a5a5a5ULL
#define TEST_SECONDS	240

enum { HANDLES = 5, TIMERS = 300, DEAD = 200, MANY = 24, STEPS = 30000, CALLS = 60 };

struct timer {
	uint64_t id;		/* zero: none */
	uint64_t deadline, cookie;
	bool can_put_off;
};

/* A handle. Shards of one family take each other's ids. */
struct handle {
	struct htw *htw;
	unsigned int family;
	struct timer timers[TIMERS];
	unsigned int count;
};

FIXTURE(any_id) {
	struct handle handles[HANDLES];
	unsigned int nr_handles;
	uint64_t dead[DEAD];
	uint64_t random, now, cookies;
	uint64_t *ids;		/* all that there were; a hash table */
	size_t nr_ids, room;
};

FIXTURE_VARIANT(any_id) {
	enum htw_backend backend;
};

FIXTURE_VARIANT_ADD(any_id, process) {
	.backend = HTW_BACKEND_PROCESS,
};

FIXTURE_VARIANT_ADD(any_id, device) {
	.backend = HTW_BACKEND_DEVICE,
};

typedef FIXTURE_DATA(any_id) any_id_t;

static uint64_t any(any_id_t *self)
{
	self->random ^= self->random << 13;
	self->random ^= self->random >> 7;
	self->random ^= self->random << 17;
	return self->random * 0x2545f4914f6cdd1dULL;
}

static uint64_t below(any_id_t *self, uint64_t n)
{
	return (any(self) >> 11) % n;
}

static int open_one(any_id_t *self, const FIXTURE_VARIANT(any_id) *variant, struct handle *handle)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	const unsigned int i = handle - self->handles;
	int ret;

	/* Two families in the process: the first handle and its shards, and the last two. */
	if (variant->backend == HTW_BACKEND_PROCESS && i && i != 3) {
		ret = htw_shard(&handle->htw, self->handles[i < 3 ? 0 : 3].htw);
		handle->family = i < 3 ? 0 : 3;
	} else {
		ret = htw_open(&handle->htw, variant->backend, &setup);
		handle->family = i;
	}
	handle->count = 0;
	memset(handle->timers, 0, sizeof(handle->timers));
	return ret;
}

FIXTURE_SETUP(any_id)
{
	memset(self, 0, sizeof(*self));
	self->random = 0x9e3779b97f4a7c15ULL;
	while (self->nr_handles < HANDLES) {
		ASSERT_EQ(0, open_one(self, variant, &self->handles[self->nr_handles]));
		self->nr_handles++;
	}
}

FIXTURE_TEARDOWN(any_id)
{
	/* The first of a family closes the others. */
	while (self->nr_handles--)
		htw_close(self->handles[self->nr_handles].htw);
	free(self->ids);
}

static bool insert(uint64_t *ids, size_t room, uint64_t id)
{
	size_t i = id * 0x9e3779b97f4a7c15ULL >> 20 & (room - 1);

	for (; ids[i]; i = (i + 1) & (room - 1))
		if (ids[i] == id)
			return false;
	ids[i] = id;
	return true;
}

/* Is it an id that was never handed out before? On the device, handles may have the same. */
static bool is_new(any_id_t *self, const FIXTURE_VARIANT(any_id) *variant,
		   const struct handle *handle, uint64_t id)
{
	uint64_t *ids = self->ids;
	size_t i, room = self->room;

	if (!id || HTW_ID_IS_ERROR(id))
		return false;
	if (++self->nr_ids * 2 > room) {
		self->room = room ? 2 * room : 1 << 14;
		self->ids = calloc(self->room, sizeof(*ids));
		for (i = 0; i < room; i++)
			if (ids[i])
				insert(self->ids, self->room, ids[i]);
		free(ids);
	}
	if (variant->backend == HTW_BACKEND_DEVICE)
		id ^= (uint64_t)(handle - self->handles) << 60;
	return insert(self->ids, self->room, id);
}

/* The timer of an id, and its handle, as seen from another of the family. */
static struct timer *find(any_id_t *self, const struct handle *from, uint64_t id,
			  struct handle **owner)
{
	unsigned int h, i;

	for (h = 0; id && h < HANDLES; h++) {
		if (self->handles[h].family != from->family)
			continue;
		for (i = 0; i < TIMERS; i++) {
			if (self->handles[h].timers[i].id != id)
				continue;
			*owner = &self->handles[h];
			return &self->handles[h].timers[i];
		}
	}
	return NULL;
}

static struct timer *some_timer(any_id_t *self, struct handle *handle)
{
	unsigned int i, k = below(self, TIMERS);

	for (i = 0; i < TIMERS; i++)
		if (handle->timers[(k + i) % TIMERS].id)
			return &handle->timers[(k + i) % TIMERS];
	return NULL;
}

static uint64_t some_number(any_id_t *self, struct handle *handle)
{
	struct handle *other = &self->handles[below(self, HANDLES)];
	const struct timer *timer = some_timer(self, below(self, 3) ? handle : other);
	uint64_t id = timer && below(self, 4) ? timer->id : self->dead[below(self, DEAD)];

	switch (below(self, 16)) {
	case 0:
		return any(self);
	case 1:
		return any(self) >> below(self, 64);
	case 2:
		return -below(self, 5000);
	case 3:
	case 4:
		return id ^ 1ULL << below(self, 64);
	case 5:
		return id ^ 1ULL << below(self, 64) ^ 1ULL << below(self, 64);
	case 6:
		return id + (1ULL << below(self, 64));
	case 7:
		return id - (1ULL << below(self, 64));
	case 8:
		return (id >> 32) | id << 32;
	case 9:
		return (id & 0xffffffff) | any(self) << 32;
	case 10:
		return (id & ~0xffffffffULL) | (uint32_t)any(self);
	case 11:
		return id + below(self, 64) - 32;
	default:
		return id;
	}
}

static void end(any_id_t *self, struct handle *owner, struct timer *timer)
{
	self->dead[below(self, DEAD)] = timer->id;
	timer->id = 0;
	owner->count--;
}

static void start(struct __test_metadata *_metadata, any_id_t *self,
		  const FIXTURE_VARIANT(any_id) *variant, struct handle *handle)
{
	uint64_t ids[4], deadlines[4], cookies[4];
	unsigned int i, k = 0, n = 1 + below(self, 4);
	const bool can_put_off = below(self, 2);
	const struct htw_add_args common = { .flags = can_put_off ? HTW_F_PUT_OFF : 0 };

	if (handle->count + n > TIMERS)
		return;
	for (i = 0; i < n; i++) {
		/* In the process also such that are due, but not read. */
		deadlines[i] = below(self, 8) || variant->backend == HTW_BACKEND_DEVICE ?
			below(self, HOUR) + HOUR : below(self, 2 * HTW_SEC);
		cookies[i] = ++self->cookies;
	}
	if (n > 1) {
		ASSERT_EQ(0, htw_add_many(handle->htw, &common, deadlines, cookies, ids, n, NULL));
	} else if (can_put_off) {
		ASSERT_EQ(0, htw_timeout(handle->htw, deadlines[0], cookies[0], ids));
	} else {
		ASSERT_EQ(0, htw_after(handle->htw, deadlines[0], cookies[0], ids));
	}
	for (i = 0; i < n; i++) {
		ASSERT_TRUE(is_new(self, variant, handle, ids[i])) TH_LOG("%llx", ids[i]);
		while (handle->timers[k].id)
			k++;
		handle->timers[k] = (struct timer){
			.id = ids[i], .deadline = self->now + deadlines[i], .cookie = cookies[i],
			.can_put_off = can_put_off,
		};
		handle->count++;
	}
}

/* Nothing has changed but what the test knows. */
static void check(struct __test_metadata *_metadata, any_id_t *self)
{
	struct handle *handle = &self->handles[below(self, HANDLES)];
	const struct timer *timer = some_timer(self, handle);
	struct htw_timer_info query;
	struct htw_info_args info;
	uint64_t remaining;
	unsigned int i;

	for (i = 0; i < HANDLES; i++) {
		ASSERT_EQ(0, htw_info(self->handles[i].htw, &info));
		ASSERT_EQ(self->handles[i].count, info.timers) TH_LOG("handle %u", i);
	}
	if (!timer)
		return;
	query = (struct htw_timer_info){ .id = timer->id };
	ASSERT_EQ(0, htw_query(handle->htw, &query));
	ASSERT_EQ(0, htw_remaining(handle->htw, timer->id, &remaining));
	ASSERT_GE(query.remaining, remaining);
	ASSERT_EQ(timer->cookie, query.cookie);
	ASSERT_EQ(timer->deadline, query.deadline);
}

/* What is done with an id. */
enum { STOP, CANCEL, REARM, MOD, QUERY, PUT_OFF, INLINE, OPERATIONS };

/* What it shall return, and does to the test's timers. */
static int expect(any_id_t *self, struct handle *handle, unsigned int operation, uint64_t id,
		  uint64_t deadline)
{
	struct handle *owner = NULL;
	struct timer *timer = find(self, handle, id, &owner);

	if (!timer)
		return -ENOENT;
	switch (operation) {
	case STOP:
	case CANCEL:
		end(self, owner, timer);
		break;
	case REARM:
	case MOD:
		timer->deadline = deadline;
		break;
	case PUT_OFF:
	case INLINE:
		if (!timer->can_put_off)
			return -ENOENT;
		if (deadline > timer->deadline)
			timer->deadline = deadline;
	}
	return 0;
}

/* Later than any before: a time that is put off counts if it is later. */
static uint64_t new_deadline(any_id_t *self)
{
	return self->now + 4 * HOUR + self->cookies++;
}

static void one(struct __test_metadata *_metadata, any_id_t *self, struct handle *handle)
{
	const unsigned int operation = below(self, OPERATIONS);
	const uint64_t id = some_number(self, handle), when = new_deadline(self);
	struct htw_cancel_args cancel = { .id = id, .remaining = POISON, .cookie = POISON,
				     .missed = POISON };
	struct htw_mod_args mod = { .id = id, .deadline = when,
				     .flags = HTW_MOD_DEADLINE | HTW_F_ABS };
	struct htw_timer_info query = { .id = id };
	struct handle *owner = NULL;
	const struct timer *timer = find(self, handle, id, &owner);
	const uint64_t cookie = timer ? timer->cookie : 0;
	const int expected = expect(self, handle, operation, id, when);
	struct htw *htw = handle->htw;
	int ret = 0;

	switch (operation) {
	case STOP:
		ret = htw_stop(htw, id);
		break;
	case CANCEL:
		ret = htw_cancel(htw, &cancel);
		ASSERT_EQ(ret ? POISON : cookie, cancel.cookie);
		ASSERT_EQ(!!ret, cancel.remaining == POISON);
		ASSERT_EQ(ret ? POISON : 0, cancel.missed);
		break;
	case REARM:
		ret = htw_rearm(htw, id, when - self->now);
		break;
	case MOD:
		ret = htw_mod(htw, &mod);
		break;
	case QUERY:
		ret = htw_query(htw, &query);
		ASSERT_EQ(ret ? 0 : cookie, query.cookie);
		break;
	case PUT_OFF:
		ret = htw_put_off(htw, id, when);
		break;
	case INLINE:
		ret = htw_put_off_inline(htw, id, when);
	}
	ASSERT_EQ(expected, ret) TH_LOG("operation %u, %llx", operation, id);
}

static void many(struct __test_metadata *_metadata, any_id_t *self, struct handle *handle)
{
	const unsigned int n = 1 + below(self, MANY), operation = below(self, 2);
	uint64_t ids[MANY], deadlines[MANY];
	int expected[MANY], results[MANY], failed = 0, kind[MANY];
	unsigned int i;

	for (i = 0; i < n; i++) {
		ids[i] = some_number(self, handle);
		deadlines[i] = new_deadline(self);
		kind[i] = operation == 0 ? STOP : REARM;
		expected[i] = expect(self, handle, kind[i], ids[i], deadlines[i]);
		failed += expected[i] < 0;
	}
	switch (operation) {
	case 0:
		ASSERT_EQ(failed, htw_stop_many(handle->htw, ids, n, results));
		break;
	default:
		ASSERT_EQ(failed, htw_rearm_many(handle->htw, ids, deadlines, n, HTW_F_ABS,
						 results));
		break;
	}
	for (i = 0; i < n; i++) {
		ASSERT_EQ(expected[i], results[i]) TH_LOG("operation %u, %llx", kind[i], ids[i]);
	}
}

/* Read all that is due; its ids have ended. */
static void expire(struct __test_metadata *_metadata, any_id_t *self)
{
	struct htw_event ev[64];
	struct handle *owner;
	struct timer *timer;
	unsigned int h;
	int i, n;

	self->now += HTW_SEC;
	for (h = 0; h < HANDLES; h++)
		if (self->handles[h].family == h) {
			ASSERT_LE(0, htw_advance(self->handles[h].htw, self->now, HTW_F_ABS));
		}
	for (h = 0; h < HANDLES; h++) {
		while ((n = htw_read(self->handles[h].htw, ev, 64))) {
			ASSERT_LT(0, n);
			for (i = 0; i < n; i++) {
				timer = find(self, &self->handles[h], ev[i].id, &owner);
				ASSERT_NE(NULL, timer);
				ASSERT_EQ(owner, &self->handles[h]);
				ASSERT_EQ(timer->cookie, ev[i].cookie);
				end(self, owner, timer);
			}
		}
	}
}

/* Close a handle, and open another in its place: none of its ids comes back. */
static void reopen(struct __test_metadata *_metadata, any_id_t *self,
		   const FIXTURE_VARIANT(any_id) *variant)
{
	struct handle *handle = &self->handles[below(self, HANDLES)];
	unsigned int i;

	/* The device's manual clock begins anew; and handles of a family stay with it. */
	if (variant->backend == HTW_BACKEND_DEVICE ||
	    handle->family == handle - self->handles)
		return;
	for (i = 0; i < TIMERS; i++)
		if (handle->timers[i].id)
			end(self, handle, &handle->timers[i]);
	htw_close(handle->htw);
	ASSERT_EQ(0, open_one(self, variant, handle));
}

TEST_F_TIMEOUT(any_id, among_timers, TEST_SECONDS)
{
	unsigned int step;

	for (step = 0; step < STEPS; step++) {
		struct handle *handle = &self->handles[below(self, HANDLES)];

		switch (below(self, 16)) {
		case 0 ... 4:
			start(_metadata, self, variant, handle);
			break;
		case 5 ... 6:
			many(_metadata, self, handle);
			break;
		case 7:
			if (!below(self, 20))
				expire(_metadata, self);
			if (!below(self, 20))
				reopen(_metadata, self, variant);
			break;
		default:
			one(_metadata, self, handle);
		}
		check(_metadata, self);
	}
}

/* Every call that takes an id refuses a number. */
static void refuses(struct __test_metadata *_metadata, struct htw *htw, uint64_t id)
{
	struct htw_cancel_args cancel = { .id = id };
	struct htw_timer_info query = { .id = id };
	uint64_t deadline = 1;
	struct htw_mod_args mod = { .id = id, .flags = HTW_MOD_COOKIE };
	uint64_t left = 4711;
	int result = 0;

	ASSERT_EQ(-ENOENT, htw_stop(htw, id)) TH_LOG("%llx", id);
	ASSERT_EQ(-ENOENT, htw_rearm(htw, id, 1)) TH_LOG("%llx", id);
	ASSERT_EQ(-ENOENT, htw_cancel(htw, &cancel)) TH_LOG("%llx", id);
	ASSERT_EQ(-ENOENT, htw_query(htw, &query)) TH_LOG("%llx", id);
	ASSERT_EQ(-ENOENT, htw_remaining(htw, id, &left)) TH_LOG("%llx", id);
	ASSERT_EQ(4711, left);
	ASSERT_EQ(-ENOENT, htw_put_off(htw, id, 1)) TH_LOG("%llx", id);
	ASSERT_EQ(-ENOENT, htw_put_off_inline(htw, id, 1)) TH_LOG("%llx", id);
	ASSERT_EQ(1, htw_stop_many(htw, &id, 1, &result)) TH_LOG("%llx", id);
	ASSERT_EQ(-ENOENT, result);
	ASSERT_EQ(1, htw_rearm_many(htw, &id, &deadline, 1, 0, &result)) TH_LOG("%llx", id);
	ASSERT_EQ(-ENOENT, result);
	ASSERT_EQ(-ENOENT, htw_mod(htw, &mod)) TH_LOG("%llx", id);
}

/* Each number of one or two bits, on a handle that has nothing, had something, has something. */
TEST_F_TIMEOUT(any_id, of_two_bits, TEST_SECONDS)
{
	struct htw *htw = self->handles[3].htw;
	struct htw_timer_info query;
	unsigned int round, a, b;
	uint64_t ids[2] = { };
	struct htw_event ev;
	struct htw_info_args info;

	for (round = 0; round < 3; round++) {
		const uint64_t bases[] = { 0, ids[0], ids[1] };

		for (a = 0; a < 64; a++) {
			for (b = 0; b <= a; b++) {
				const uint64_t bits = 1ULL << a | 1ULL << b;
				unsigned int i;

				for (i = 0; i < 3; i++) {
					if ((bases[i] ^ bits) != ids[1] || !ids[1])
						refuses(_metadata, htw, bases[i] ^ bits);
					if (bases[i] + bits != ids[1] || !ids[1])
						refuses(_metadata, htw, bases[i] + bits);
				}
			}
		}
		ASSERT_EQ(0, htw_info(htw, &info));
		ASSERT_EQ(round == 2, info.timers);
		if (round == 0) {
			ASSERT_EQ(0, htw_timeout(htw, 0, 7, &ids[0]));
			ASSERT_EQ(1, htw_read(htw, &ev, 1));
			ASSERT_EQ(ids[0], ev.id);
		} else if (round == 1) {
			ASSERT_EQ(0, htw_after(htw, HOUR, 8, &ids[1]));
		}
	}
	query = (struct htw_timer_info){ .id = ids[1] };
	ASSERT_EQ(0, htw_query(htw, &query));
	ASSERT_EQ(8, query.cookie);
	ASSERT_EQ(HOUR, query.remaining);
}

/* In the process, the ids of all handles differ, and a wrong one's are refused. */
TEST_F_TIMEOUT(any_id, of_another_handle, TEST_SECONDS)
{
	uint64_t ids[HANDLES][100];
	struct htw_timer_info query;
	unsigned int h, k, i;

	if (variant->backend == HTW_BACKEND_DEVICE)
		SKIP(return, "handles of the device may have the same ids");
	for (i = 0; i < 100; i++) {
		for (h = 0; h < HANDLES; h++) {
			ASSERT_EQ(0, htw_timeout(self->handles[h].htw, HOUR, h, &ids[h][i]));
		}
	}
	for (h = 0; h < HANDLES; h++) {
		for (k = 0; k < HANDLES; k++) {
			const bool same = self->handles[h].family == self->handles[k].family;

			for (i = 0; i < 100; i++) {
				query = (struct htw_timer_info){ .id = ids[k][i] };
				if (!same) {
					refuses(_metadata, self->handles[h].htw, ids[k][i]);
					continue;
				}
				ASSERT_EQ(0, htw_query(self->handles[h].htw, &query));
				ASSERT_EQ(k, query.cookie);
				ASSERT_EQ(HOUR, query.remaining);
			}
		}
	}
}

/* Any number may be given for a cursor, too: what is reported from there are timers, once each. */
TEST_F_TIMEOUT(any_id, for_a_cursor, TEST_SECONDS)
{
	enum { COUNT = 64 };
	struct handle *handle = &self->handles[1];
	struct htw_timer_info entries[COUNT];
	unsigned int step, i, way, left = 0;
	struct handle *owner;
	struct timer *timer;
	uint64_t cursor;
	int n;

	for (step = 0; step < STEPS / 2; step++) {
		start(_metadata, self, variant, handle);
		way = below(self, 20);
		cursor = below(self, 2) ? any(self) >> below(self, 64) : some_number(self, handle);
		left = 0;
		do {
			const bool too_large = cursor > UINT32_MAX;

			if (!way)
				n = htw_harvest(handle->htw, &cursor, entries, COUNT);
			else if (way < 10)
				n = htw_list(handle->htw, &cursor, entries, COUNT);
			else
				n = htw_list_in(handle->htw, below(self, 8), &cursor, entries,
						1 + below(self, COUNT));
			ASSERT_EQ(too_large, n == -EINVAL) TH_LOG("%llx, %d", cursor, n);
			ASSERT_LE(n, COUNT);
			ASSERT_GE(TIMERS, left += n > 0 ? n : 0);
			for (i = 0; (int)i < n; i++) {
				timer = find(self, handle, entries[i].id, &owner);
				ASSERT_NE(NULL, timer);
				ASSERT_EQ(handle, owner);
				ASSERT_EQ(timer->cookie, entries[i].cookie);
				if (!way)
					end(self, handle, timer);
			}
		} while (n > 0 || n == -EAGAIN);
		check(_metadata, self);
	}
}

static void called(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	++*(unsigned int *)arg;
}

TEST_F_TIMEOUT(any_id, among_calls, TEST_SECONDS)
{
	const bool process = variant->backend == HTW_BACKEND_PROCESS;
	struct handle *handle = &self->handles[0];
	unsigned int step, i, made = 0;
	struct htw_dispatcher *d;
	uint64_t ids[CALLS] = { };
	struct htw_info_args info;
	uint64_t id;
	int ret;

	ASSERT_EQ(0, htw_dispatcher_new(&d, handle->htw));
	for (step = 0; step < STEPS; step++) {
		i = below(self, CALLS);
		if (!ids[i] && below(self, 2)) {
			ASSERT_EQ(0, htw_call_after(d, HOUR, called, &made, &ids[i]));
			ASSERT_TRUE(is_new(self, variant, &self->handles[1], ids[i]));
			handle->count++;
		}
		/* For some_number(), which looks for timers. */
		memset(handle->timers, 0, sizeof(handle->timers));
		for (i = 0; i < CALLS; i++)
			handle->timers[i].id = ids[i];
		id = some_number(self, handle);
		for (i = 0; i < CALLS && (!id || ids[i] != id); i++)
			;
		switch (below(self, 6)) {
		case 0:
			ret = htw_call_stop_wait(d, id);
			break;
		case 1:
			ret = htw_call_stop(d, id);
			break;
		case 2:
			htw_call_missed(d, id);
			continue;
		default:
			ret = htw_call_again(d, id, HOUR + step);
			ASSERT_EQ(i < CALLS ? 0 : -ENOENT, ret) TH_LOG("%llx", id);
			continue;
		}
		ASSERT_EQ(i < CALLS ? 0 : -ENOENT, ret) TH_LOG("%llx", id);
		if (!ret) {
			self->dead[below(self, DEAD)] = id;
			ids[i] = 0;
			handle->count--;
		}
		if (process && !below(self, 10)) {
			ASSERT_EQ(0, htw_info(handle->htw, &info));
			ASSERT_EQ(handle->count, info.timers);
		}
	}
	/* And none for a cursor. */
	for (step = 0; step < STEPS / 10; step++) {
		struct htw_pending_call pending[8];
		uint64_t cursor = any(self) >> below(self, 64);
		unsigned int n = htw_dispatcher_shutdown(d, &cursor, pending, below(self, 9));

		ASSERT_GE(8, n);
		while (n--) {
			for (i = 0; i < CALLS && ids[i] != pending[n].call; i++)
				;
			ASSERT_GT(CALLS, i);
			ids[i] = 0;
			handle->count--;
		}
		i = below(self, CALLS);
		if (ids[i])
			continue;
		ASSERT_EQ(0, htw_call_after(d, HOUR, called, &made, &ids[i]));
		handle->count++;
	}
	ASSERT_LE(0, htw_advance(handle->htw, 3 * HOUR, 0));
	while ((ret = htw_dispatch(d, 0)) > 0)
		;
	ASSERT_EQ(0, ret);
	ASSERT_EQ(handle->count, made);
	htw_dispatcher_free(d);
}

TEST_HARNESS_MAIN
