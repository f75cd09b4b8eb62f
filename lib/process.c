// SPDX-License-Identifier: MIT
/* Timers in the process: the handle and its shards. See process.h. */
#include "process.h"

#include <sys/timerfd.h>
#include <unistd.h>

#define LIMIT_DEFAULT		(1u << 20)
#define LIMIT_MAX		(1u << 26)

#define TICK_DEFAULT		1000000u
#define TICK_EXACT		10000u
#define TICK_MIN		1000u
#define TICK_MAX		1000000000u

/* The largest levels that are made with a lock held; larger ones are made with the handle. */
#define LEVELS_LATER_MOST	65536u

/* Memory of different shards is on different cache lines, of which CPUs may fetch two at a time. */
#define APART			128

/* Numbers of handles. */

/*
 * What a handle's number is: in use, then the first chunk's number of the next
 * handle that gets it, so that ids differ from those of closed handles. A child
 * of fork() may open handles as well, so there is no lock that another thread
 * could have held.
 */
#define NUMBER_IN_USE	1u
static u32 handle_numbers[HANDLES];
static u32 last_handle;

/* Return: a handle's number, with its first chunk's; or zero. */
static u32 take_handle_number(u32 *first)
{
	const u32 start = __atomic_add_fetch(&last_handle, 1, __ATOMIC_RELAXED);
	u32 i, number, state;

	/* More than once around: while others open and close, one may be free behind. */
	for (i = 0; i < 4 * HANDLES; i++) {
		number = (start + i) % HANDLES;
		state = __atomic_load_n(&handle_numbers[number], __ATOMIC_RELAXED);
		*first = max(state >> 1, 1u);
		if (!number || number == HANDLES - 1 || state & NUMBER_IN_USE ||
		    *first >= CHUNK_NUMBERS / 2)
			continue;
		if (__atomic_compare_exchange_n(&handle_numbers[number], &state,
						state | NUMBER_IN_USE, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return number;
	}
	return 0;
}

static void give_handle_number_back(u32 number, u32 next_first)
{
	__atomic_store_n(&handle_numbers[number], next_first << 1, __ATOMIC_RELEASE);
}

/* Set-up. */

/* Set clock, tick, limit and geometry, with the checks of HTW_SETUP. */
static int shape(struct process *p, const struct htw_setup_args *setup)
{
	const u32 known = HTW_SETUP_CLOCK | HTW_SETUP_EXACT | HTW_SETUP_ORDERED | HTW_SETUP_PI;
	struct htw_geometry *geo = &p->geometry;
	u32 l;

	p->clock = CLOCK_MONOTONIC;
	p->tick_ns = TICK_DEFAULT;
	p->limit = LIMIT_DEFAULT;
	htw_geometry_default(geo, p->tick_ns, 0);
	if (!setup)
		return 0;

	if (setup->flags & ~known ||
	    (setup->event_size && setup->event_size != sizeof(struct htw_event)))
		return -EINVAL;

	if (setup->flags & HTW_SETUP_CLOCK)
		p->clock = setup->clock;
	else if (setup->clock)
		return -EINVAL;
	if (p->clock != CLOCK_MONOTONIC && p->clock != CLOCK_BOOTTIME &&
	    p->clock != CLOCK_REALTIME && p->clock != HTW_CLOCK_MANUAL)
		return -EOPNOTSUPP;

	if (setup->limit > LIMIT_MAX)
		return -ERANGE;
	if (setup->limit)
		p->limit = setup->limit;
	p->setup_flags = setup->flags;

	if (setup->flags & HTW_SETUP_EXACT) {
		if (setup->tick_ns)
			return -EINVAL;
		p->tick_ns = TICK_EXACT;
	} else if (setup->tick_ns) {
		if (setup->tick_ns < (p->clock == HTW_CLOCK_MANUAL ? 1 : TICK_MIN) ||
		    setup->tick_ns > TICK_MAX)
			return -ERANGE;
		p->tick_ns = setup->tick_ns;
	}

	if (setup->levels > HTW_MAX_LEVELS)
		return -ERANGE;
	for (l = setup->levels; l < HTW_MAX_LEVELS; l++)
		if (setup->slots[l])
			return -EINVAL;
	if (!setup->levels) {
		htw_geometry_default(geo, p->tick_ns, 0);
		return 0;
	}
	*geo = (struct htw_geometry){ .levels = setup->levels };
	for (l = 0; l < setup->levels; l++)
		geo->slots[l] = setup->slots[l];
	return htw_geometry_error(geo) ? -ERANGE : 0;
}

/* Memory that shares no cache line with that of another shard. */
static void *allocate_apart(size_t bytes)
{
	return aligned_alloc(APART, (bytes + APART - 1) / APART * APART);
}

/**
 * htw_add_levels() - give the wheel levels, if there is memory
 * @p: the handle, locked, whose wheel has none
 */
void htw_add_levels(struct process *p)
{
	const int error = errno;
	void *memory;

	if (p->levels_wait) {
		p->levels_wait--;
		return;
	}

	memory = allocate_apart(htw_geometry_bytes(&p->geometry));
	errno = error;
	if (!memory) {
		p->levels_wait = LEVELS_RETRY;
		return;
	}
	p->few = U64_MAX;
	htw_levels_init(&p->geometry, memory);
	p->ahead |= htw_wheel_attach_levels(&p->wheel, &p->geometry, memory);
}

static const struct htw_backend_ops process_ops;

/*
 * Make a handle or a shard, at the beginning of the manual clock.
 * @with: a handle with clock, tick, limit, geometry and family
 */
static int create(struct process **made, const struct process *with)
{
	struct process *p = allocate_apart(sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;

	*p = (struct process){
		.htw.ops = &process_ops,
		.armed = U64_MAX,
		.clock = with->clock,
		.tick_ns = with->tick_ns,
		.limit = with->limit,
		.few = FEW_TIMERS,
		.setup_flags = with->setup_flags,
		.geometry = with->geometry,
		.family = with->family,
	};
	htw_deadlines_init(&p->htw);

	ret = htw_process_number(&p->htw.process);
	if (ret)
		goto free_handle;

	ret = -EMFILE;
	p->number = take_handle_number(&p->first);
	if (!p->number)
		goto free_handle;

	ret = htw_slots_init(p);
	if (ret)
		goto free_slots;

	htw_wheel_init(&p->wheel, read_clock(p) / p->tick_ns);
	if (htw_geometry_bytes(&p->geometry) > LEVELS_LATER_MOST) {
		htw_add_levels(p);
		ret = -ENOMEM;
		if (!p->wheel.levels)
			goto free_slots;
	}
	p->htw.fd = timerfd_create(p->clock == HTW_CLOCK_MANUAL ? CLOCK_MONOTONIC : p->clock,
				   TFD_NONBLOCK | TFD_CLOEXEC);
	if (p->htw.fd < 0) {
		ret = -errno;
		goto free_levels;
	}

	ret = htw_lock_init(&p->lock, p->setup_flags & HTW_SETUP_PI);
	if (ret)
		goto close_fd;
	*made = p;
	return 0;

close_fd:
	close(p->htw.fd);
free_levels:
	free(htw_wheel_remove_levels(&p->wheel));
free_slots:
	htw_slots_free(p);
	give_handle_number_back(p->number, p->first);
free_handle:
	free(p);
	return ret;
}

/* Free a handle or shard that no thread uses any more. */
static void destroy(struct process *p)
{
	/* The nodes are freed with their chunks, so the wheel need not be emptied. */
	p->wheel.pending = 0;
	free(htw_wheel_remove_levels(&p->wheel));
	htw_deadlines_free(&p->htw);
	htw_slots_free(p);
	/* Silent also for a child that has a copy. */
	htw_disarm(p);
	close(p->htw.fd);
	give_handle_number_back(p->number, p->first + p->nr_numbers);
	htw_lock_destroy(&p->lock);
	free(p);
}

/*
 * Close a copy in a child of fork(), where another thread may have held any
 * lock: take none, and leave what other copies could refer to.
 */
static void close_copy(struct process *p)
{
	if (p->htw.fd >= 0)
		close(p->htw.fd);
	p->htw.fd = -1;
}

static void process_close(struct htw *htw)
{
	struct process *p = process_of(htw);
	struct family *family = p->family;
	const int error = errno;
	u32 i;

	if (htw_is_forked(htw->process)) {
		close_copy(p);
		for (i = 0; p == family->head && family->shards && i < HANDLES; i++)
			if (family->shards[i])
				close_copy(family->shards[i]);
	} else if (p != family->head) {
		/* Waits for those that use one of its ids. */
		htw_lock_take(&family->lock);
		family->shards[p->number] = NULL;
		htw_lock_give(&family->lock);
		destroy(p);
	} else {
		for (i = 0; family->shards && i < HANDLES; i++)
			if (family->shards[i] && family->shards[i] != p)
				destroy(family->shards[i]);
		destroy(p);
		htw_lock_destroy(&family->lock);
		free(family->shards);
		free(family);
	}
	errno = error;
}

/* Make a shard one of its family, whose lock is held. */
static int add_shard(struct family *family, struct process *made)
{
	struct process **shards = family->shards;

	if (!shards) {
		shards = calloc(HANDLES, sizeof(*shards));
		if (!shards)
			return -ENOMEM;
		shards[family->head->number] = family->head;
	}

	made->manual_ns = family->manual_ns;
	shards[made->number] = made;
	if (!family->shards)
		__atomic_store_n(&family->shards, shards, __ATOMIC_RELEASE);
	return 0;
}

static int process_shard(struct htw *htw, struct htw **shard)
{
	struct process *p = process_of(htw), *made;
	const int error = errno;
	int ret;

	ret = create(&made, p);
	if (!ret) {
		htw_lock_take(&p->family->lock);
		ret = add_shard(p->family, made);
		htw_lock_give(&p->family->lock);
		if (ret)
			destroy(made);
		else
			*shard = &made->htw;
	}
	errno = error;
	return ret;
}

/* The manual clock. */

/*
 * Move the clock of a shard to that of the family, whose lock is held. Return:
 * whether something is due; *@known: it is known, as no long bucket is moving
 * down.
 */
static bool advance_shard(struct process *p, unsigned int *portion, bool *known)
{
	bool due;

	htw_lock_take(&p->lock);
	p->manual_ns = p->family->manual_ns;
	due = htw_is_due(p, portion);
	*known = !due || !list_empty(&p->wheel.due);
	process_unlock(p);
	return due;
}

/* The shard of a number, or NULL. Called with the lock of the family held. */
static struct process *shard_of(const struct family *family, u32 number)
{
	if (family->shards)
		return family->shards[number];
	return number == family->head->number ? family->head : NULL;
}

static int process_advance(struct htw *htw, uint64_t ns, unsigned int flags)
{
	struct process *p = process_of(htw), *shard;
	struct family *family = p->family;
	unsigned int left = HTW_LOOKS;
	bool any = false;
	u64 to;
	u32 i;

	if (flags & ~HTW_F_ABS || p->clock != HTW_CLOCK_MANUAL)
		return -EINVAL;

	htw_lock_take(&family->lock);
	to = flags & HTW_F_ABS ? ns : htw_sum(family->manual_ns, ns);
	/* Times end at INT64_MAX, as those of the device. */
	if (to < family->manual_ns || to > INT64_MAX) {
		htw_lock_give(&family->lock);
		return -EINVAL;
	}
	family->manual_ns = to;

	for (i = 0; i < HANDLES; i++) {
		unsigned int portion, given;
		bool due = false, known;

		do {
			shard = shard_of(family, i);
			if (!shard)
				break;
			/* All together have what one handle has; then they are set, and no more. */
			given = portion = min(left, PORTION);
			due = advance_shard(shard, &portion, &known);
			left -= given - portion;
			/* Others may be waiting for a timer of another shard. */
			htw_lock_give_way(&family->lock);
		} while (!known && left);
		any |= due;
	}
	htw_lock_give(&family->lock);
	return any;
}

static uint64_t process_now(struct htw *htw)
{
	struct process *p = process_of(htw);
	u64 now;

	/* A child of fork() must not wait for the lock; its manual clock is as it was. */
	if (p->clock != HTW_CLOCK_MANUAL || htw_is_forked(htw->process))
		return read_clock(p);
	process_lock(p);
	now = p->manual_ns;
	process_unlock(p);
	return now;
}

/* The handle. */

static int process_info(struct htw *htw, struct htw_info_args *info)
{
	struct process *p = process_of(htw);
	unsigned int l;

	process_lock(p);

	*info = (struct htw_info_args){
		.features = HTW_FEATURE_FIRST,
		.tick_ns = p->tick_ns,
		.limit = p->limit,
		.timers = p->nr_timers,
		.bytes = sizeof(*p) + p->nr_chunks * CHUNK_BYTES +
			 (p->wheel.levels ? htw_geometry_bytes(&p->geometry) : 0),
		.user_limit = UINT64_MAX,
		.user_timers = p->nr_timers,
		.next = htw_next_of(p),
		.clock = p->clock,
		.flags = p->setup_flags & ~HTW_SETUP_PI,
		.event_size = sizeof(struct htw_event),
		.levels = p->geometry.levels,
	};
	for (l = 0; l < p->geometry.levels; l++)
		info->slots[l] = p->geometry.slots[l];
	process_unlock(p);
	return 0;
}

static int process_reserve(struct htw *htw, uint64_t count)
{
	struct process *p = process_of(htw);
	int ret;

	if (count > p->limit)
		return -ENOSPC;
	process_lock(p);
	ret = htw_slots_reserve(p, count);
	if (!ret && count > p->few) {
		p->levels_wait = 0;
		htw_add_levels(p);
		ret = p->wheel.levels ? 0 : -ENOMEM;
	}
	finish(p);
	process_unlock(p);
	return ret;
}

static const struct htw_backend_ops process_ops = {
	.backend	= HTW_BACKEND_PROCESS,
	.close		= process_close,
	.now		= process_now,
	.info		= process_info,
	.reserve	= process_reserve,
	.add		= htw_process_add,
	.stop		= htw_process_stop,
	.cancel		= htw_process_cancel,
	.mod		= htw_process_mod,
	.query		= htw_process_query,
	.next_time	= htw_process_next_time,
	.add_many	= htw_process_add_many,
	.rearm_many	= htw_process_rearm_many,
	.stop_many	= htw_process_stop_many,
	.read		= htw_process_read,
	.ready		= htw_process_ready,
	.cancel_all	= htw_process_cancel_all,
	.list		= htw_process_list,
	.harvest	= htw_process_harvest,
	.advance	= process_advance,
	.shard		= process_shard,
	.put_off	= htw_process_put_off,
};

/**
 * htw_process_open() - htw_open() of %HTW_BACKEND_PROCESS
 * @htw: out: the handle
 * @setup: as for htw_open()
 *
 * Return: as htw_open().
 */
int htw_process_open(struct htw **htw, const struct htw_setup_args *setup)
{
	struct process with = { }, *p;
	struct family *family;
	int ret = shape(&with, setup);

	if (ret)
		return ret;
	family = calloc(1, sizeof(*family));
	if (!family)
		return -ENOMEM;
	ret = htw_lock_init(&family->lock, with.setup_flags & HTW_SETUP_PI);
	if (ret)
		goto free_family;

	with.family = family;
	ret = create(&p, &with);
	if (ret)
		goto destroy_lock;
	family->head = p;
	*htw = &p->htw;
	return 0;

destroy_lock:
	htw_lock_destroy(&family->lock);
free_family:
	free(family);
	return ret;
}
