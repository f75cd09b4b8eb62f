// SPDX-License-Identifier: GPL-2.0-only
/*
 * SIGIO for new events
 *
 * The recipients of one signal can be a process group of thousands, which
 * kill_fasync() walks with interrupts off. So signals are sent by work items,
 * not by the softirq that delivers the events, and leave a CPU alone for as
 * long as they take.
 *
 * There is one work item for each user, and one of them has its turn at a time:
 * whatever other users send, a user waits for a turn of each of them. A turn
 * ends after some time; a user with signals left queues again, behind the
 * others. A user without tokens waits for those first. Classes of users take
 * turns as well, so privileged users do not wait for all others.
 */

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kcov.h>
#include <linux/poll.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "pacer.h"
#include "sigio.h"

/* Length of a turn while others are queued; else HTW_RUN_NS. The last signal may exceed it. */
#define HTW_SIGIO_NS		(50 * NSEC_PER_USEC)

/* Guards the queues with all senders, and their contexts. None of htw's is taken inside it. */
static DEFINE_SPINLOCK(htw_sigio_lock);
/* Senders of each class that wait for their turn. */
static struct list_head htw_sigio_queues[HTW_CLASSES];
/* The class whose turn is next. */
static unsigned int htw_sigio_next_class;
/* The sender whose turn it is. */
static struct htw_sigio_sender *htw_sigio_sending;
/* A turn is some us, for which many wait: it is not to wait for tasks that have the CPU. */
static struct workqueue_struct *htw_sigio_wq;

/* The first sender of the next class that has any, or NULL. */
static struct htw_sigio_sender *htw_sigio_first(void)
{
	lockdep_assert_held(&htw_sigio_lock);

	for (unsigned int i = 0; i < HTW_CLASSES; i++) {
		struct list_head *queue = &htw_sigio_queues[htw_sigio_next_class];

		htw_sigio_next_class = (htw_sigio_next_class + 1) % HTW_CLASSES;
		if (!list_empty(queue))
			return list_first_entry(queue, struct htw_sigio_sender,
						entry);
	}
	return NULL;
}

/* Let the next sender have its turn, unless one has it. */
static void htw_sigio_next(void)
{
	struct htw_sigio_sender *s;

	lockdep_assert_held(&htw_sigio_lock);

	if (htw_sigio_sending)
		return;
	s = htw_sigio_first();
	if (!s)
		return;

	htw_sigio_sending = s;
	list_del_init(&s->entry);
	queue_delayed_work(htw_sigio_wq, &s->work, 0);
}

static void htw_sigio_enqueue(struct htw_sigio_sender *s)
{
	lockdep_assert_held(&htw_sigio_lock);

	list_add_tail(&s->entry, &htw_sigio_queues[s->class]);
	htw_sigio_next();
}

/* End a sender's turn. If it has signals left it queues again, after @wait ns if that is not 0. */
static void htw_sigio_end_turn(struct htw_sigio_sender *s, u64 wait)
{
	spin_lock_bh(&htw_sigio_lock);
	htw_sigio_sending = NULL;
	s->scheduled = !list_empty(&s->due);
	if (s->scheduled && wait)
		queue_delayed_work(htw_sigio_wq, &s->work,
				   nsecs_to_jiffies(wait) + 1);
	else if (s->scheduled)
		htw_sigio_enqueue(s);
	htw_sigio_next();
	spin_unlock_bh(&htw_sigio_lock);
}

/* Has the sender its turn? Queue it if not: it has waited for tokens. */
static bool htw_sigio_has_turn(struct htw_sigio_sender *s)
{
	bool has_turn;

	spin_lock_bh(&htw_sigio_lock);
	has_turn = htw_sigio_sending == s;
	if (!has_turn) {
		s->scheduled = !list_empty(&s->due);
		if (s->scheduled)
			htw_sigio_enqueue(s);
	}
	spin_unlock_bh(&htw_sigio_lock);
	return has_turn;
}

static struct htw_sigio *htw_sigio_first_due(struct htw_sigio_sender *s)
{
	lockdep_assert_held(&htw_sigio_lock);

	return list_first_entry_or_null(&s->due, struct htw_sigio, entry);
}

/* Take the next context to signal off the list, or return NULL. */
static struct htw_sigio *htw_sigio_take(struct htw_sigio_sender *s)
{
	struct htw_sigio *sigio;

	spin_lock_bh(&htw_sigio_lock);
	sigio = htw_sigio_first_due(s);
	if (sigio)
		list_del_init(&sigio->entry);
	spin_unlock_bh(&htw_sigio_lock);
	return sigio;
}

/* Return the length of a turn. Lockless: a sender that queues now is seen after the next signal. */
static u64 htw_sigio_turn_ns(void)
{
	for (unsigned int class = 0; class < HTW_CLASSES; class++) {
		if (!list_empty(&htw_sigio_queues[class]))
			return HTW_SIGIO_NS;
	}
	return HTW_RUN_NS;
}

/* Send one context's signal. Return: false if there was none. */
static bool htw_sigio_send_one(struct htw_sigio_sender *s)
{
	struct htw_sigio *sigio;

	/* A context that is closed leaves the list a grace period before it is freed. */
	rcu_read_lock();
	sigio = htw_sigio_take(s);
	if (sigio)
		kill_fasync(&sigio->fasync, SIGIO, POLL_IN);
	rcu_read_unlock();
	return sigio;
}

/* Send for some time, once this CPU has been left alone. */
static void htw_sigio_send_some(struct htw_sigio_sender *s)
{
	struct htw_pacer_work pacing;
	u64 busy;

	while ((busy = htw_pacer_busy_ns()))
		usleep_range(busy / NSEC_PER_USEC + 1,
			     busy / NSEC_PER_USEC + 50);

	htw_pacer_begin_work(&pacing);
	while (htw_sigio_send_one(s) &&
	       htw_pacer_work_ns(&pacing) < htw_sigio_turn_ns())
		;
	htw_pacer_end_work(&pacing, s->flows);
}

/* &htw_sigio_sender.work: a turn. */
static void htw_sigio_work(struct work_struct *work)
{
	struct htw_sigio_sender *s =
		container_of(to_delayed_work(work), struct htw_sigio_sender,
			     work);
	u64 wait;

	if (!htw_sigio_has_turn(s))
		return;

	kcov_remote_start_common(s->kcov_handle);
	/* On the CPU whose share the user has, and which has been left alone. */
	migrate_disable();
	wait = htw_pacer_throttled_ns(s->flows);
	if (wait)
		htw_pacer_charge_look(s->flows);
	else
		htw_sigio_send_some(s);
	migrate_enable();
	kcov_remote_stop();
	htw_sigio_end_turn(s, wait);
}

/*
 * Have a context's recipients get SIGIO. In an RCU read-side section in which
 * the context may be closed, but is not freed.
 */
void htw_sigio_send(struct htw_sigio *sigio, struct htw_sigio_sender *s)
{
	spin_lock_bh(&htw_sigio_lock);
	/* Its recipients may have been looked at before it was closed. */
	if (!sigio->stopped) {
		if (list_empty(&sigio->entry))
			list_add_tail(&sigio->entry, &s->due);
		if (!s->scheduled) {
			s->scheduled = true;
			htw_sigio_enqueue(s);
		}
	}
	spin_unlock_bh(&htw_sigio_lock);
}

void htw_sigio_init(struct htw_sigio *sigio)
{
	INIT_LIST_HEAD(&sigio->entry);
	sigio->stopped = false;
}

/*
 * Send no more signals for a context that is being closed and has no
 * recipients. What is under way goes on for up to a grace period.
 */
void htw_sigio_stop(struct htw_sigio *sigio)
{
	spin_lock_bh(&htw_sigio_lock);
	sigio->stopped = true;
	list_del_init(&sigio->entry);
	spin_unlock_bh(&htw_sigio_lock);
}

void htw_sigio_sender_init(struct htw_sigio_sender *s,
			   struct htw_flow __percpu *flows)
{
	*s = (struct htw_sigio_sender) {
		.flows = flows,
		.class = per_cpu_ptr(flows, cpumask_first(cpu_possible_mask))->class,
		.kcov_handle = kcov_common_handle(),
	};
	INIT_LIST_HEAD(&s->due);
	INIT_LIST_HEAD(&s->entry);
	INIT_DELAYED_WORK(&s->work, htw_sigio_work);
}

/* Free a sender that has no contexts any more, so that it does not queue again. May sleep. */
void htw_sigio_sender_exit(struct htw_sigio_sender *s)
{
	spin_lock_bh(&htw_sigio_lock);
	list_del_init(&s->entry);
	spin_unlock_bh(&htw_sigio_lock);

	cancel_delayed_work_sync(&s->work);

	/* It was cancelled before it had its turn. */
	spin_lock_bh(&htw_sigio_lock);
	if (htw_sigio_sending == s) {
		htw_sigio_sending = NULL;
		htw_sigio_next();
	}
	spin_unlock_bh(&htw_sigio_lock);
}

int htw_sigio_init_queues(void)
{
	for (unsigned int class = 0; class < HTW_CLASSES; class++)
		INIT_LIST_HEAD(&htw_sigio_queues[class]);
	htw_sigio_wq = alloc_workqueue("htw_sigio", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return htw_sigio_wq ? 0 : -ENOMEM;
}

void htw_sigio_exit_queues(void)
{
	destroy_workqueue(htw_sigio_wq);
}
