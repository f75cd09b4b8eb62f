/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ring: head, tail, overflow, flush and poll (core/ring.c, core/delivery.c, core/event.c,
 * core/reader.c, lib/device.c)
 *
 * Stands for htw_ring_room(), htw_ring_next(), htw_ring_publish(), htw_delivery_to_ring(),
 * htw_delivery_to_queue(), htw_delivery_refill_ring(), htw_event_move_to_ring(),
 * htw_reader_flush(), htw_chardev_poll() with htw_reader_is_readable(), and on the program's side
 * ring_read(), ring_flush() and a sleep in poll().
 *
 * Events are numbered in the order in which they come, up to two at a time; the ring holds two. As
 * indices do not wrap here, the n-th entry that is written must be event n. Each access to mapped
 * memory is a step; acquire and release keep their order, so the broken variants differ in order
 * only.
 *
 * Assumed: whoever is on the list when a delivery looks for waiters is woken (wake.pml).
 *
 * Promised: the program reads each event once, whole and in order; when nothing can happen any
 * more it has read all. If it has read all up to a tail and then finds the flag clear, it has read
 * what had come when that tail was published, or that is in the ring by now.
 *
 * check:
 * check: -DEVENTS=5
 * reject: -DTAIL_FIRST	the tail is published before its entries
 * reject: -DFLAG_LATE	the flag is published after the tail
 * reject: -DHEAD_EARLY	the program gives entries back before it has copied them
 * reject: -DBYPASS	an event goes to the ring while others are queued
 * reject: -DNO_ROOM	the head is not looked at
 * reject: -DLOOK_FIRST	poll looks for events before it is on the list of waiters
 * reject: -DNO_FLUSH	poll does not look at the queue
 */

#ifndef EVENTS
#define EVENTS	4
#endif
#define ENTRIES	2

/* Mapped memory. */
byte entry[ENTRIES];
byte head, tail;
bool flag;

/* The kernel's. */
bool lock;
byte ktail;		/* events that have been written to the ring */
byte came;		/* events that have come; the others are queued */
bool waits, woken;	/* the program is on the list of waiters; was woken */

byte came_by[EVENTS + 1];	/* by the first publication of each tail */
byte got;		/* events that the program has read */

#define QUEUED		(came - ktail)
#ifdef NO_ROOM
#define ROOM		1
#else
#define ROOM		(ENTRIES - (ktail - head))
#endif

inline spin_lock()	{ atomic { !lock -> lock = true } }
inline spin_unlock()	{ lock = false }

/* Write the oldest queued event, and count it. */
inline write(n)
{
#ifdef TAIL_FIRST
	tail = ktail + 1;
#endif
	atomic {
		entry[ktail % ENTRIES] = n;
		ktail++
	}
}

inline publish()
{
	atomic {
		if
		:: !came_by[ktail] -> came_by[ktail] = came
		:: else
		fi
#ifdef FLAG_LATE
	}
	tail = ktail;
	flag = QUEUED > 0
#else
		;
		flag = QUEUED > 0
	}
	tail = ktail
#endif
}

inline move(most, n)
{
	n = 0;
	do
	:: n < most && QUEUED && ROOM > 0 ->
		write(ktail + 1);
		n++
	:: else -> break
	od
}

proctype deliveries()
{
	byte n, new;

	do
	:: came < EVENTS ->
		spin_lock();
		if
		:: new = 1
		:: came + 2 <= EVENTS -> new = 2
		fi;
#ifdef BYPASS
		if
		:: QUEUED && ROOM > 0 && new == 1 ->
			came++;
			write(came)
		:: else
		fi;
#endif
		do
		:: new && !QUEUED && ROOM > 0 ->
			came++;
			write(came);
			new--
		:: else -> break
		od;
		came = came + new;
		if
		:: new -> move(2 * new, n)
		:: else
		fi;
		n = 0;
		new = 0;
		publish();
		spin_unlock();
		if
		:: waits -> woken = true
		:: !waits
		fi
	:: came == EVENTS -> break
	od
}

/* htw_reader_flush() */
inline flush(n)
{
	spin_lock();
	move(ENTRIES, n);
	publish();
	spin_unlock()
}

proctype program()
{
	byte h, t, n;
	bool readable;

end:	do
	:: true ->
		t = tail;
#ifdef HEAD_EARLY
		head = t;
#endif
		do
		:: h < t ->
			assert(entry[h % ENTRIES] == h + 1);
			h++;
			got++
		:: h == t -> break
		od;
#ifndef HEAD_EARLY
		head = t;
#endif
		if
		:: flag ->
			flush(n)
		:: atomic { !flag -> assert(!came_by[t] || ktail >= came_by[t]) }
			n = 0
		fi;
		if
		:: n
		:: !n ->
			/* poll() */
#ifdef LOOK_FIRST
			flush(n);
			atomic { !lock -> readable = QUEUED || ktail != head }
			waits = true;
#else
			waits = true;
#ifndef NO_FLUSH
			flush(n);
#endif
#ifdef NO_FLUSH
			readable = ktail != head;
#else
			atomic { !lock -> readable = QUEUED || ktail != head }
#endif
#endif
			if
			:: readable
			:: !readable ->
end_poll:			woken
			fi;
			atomic { waits = false; woken = false; readable = false }
		fi;
		n = 0
	od
}

init
{
	atomic {
		run deliveries();
		run program()
	}
	timeout;
	assert(got == EVENTS)
}
