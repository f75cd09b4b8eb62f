// SPDX-License-Identifier: GPL-2.0-only
// C++ exceptions out of a dispatcher's calls: nothing that was read is lost, and nothing is busy for
// ever. Prints TAP, as the other tests do.
#include <libhtw.h>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

struct Fixture {
	htw *timers = nullptr;
	htw_dispatcher *d = nullptr;
	std::vector<int> made;
	int throws_at = -1;
	std::uint64_t last = 0;

	Fixture()
	{
		htw_setup_args setup = {};

		setup.flags = HTW_SETUP_CLOCK;
		setup.clock = HTW_CLOCK_MANUAL;
		if (htw_open(&timers, HTW_BACKEND_PROCESS, &setup) || htw_dispatcher_new(&d, timers))
			throw std::runtime_error("cannot open");
	}

	~Fixture()
	{
		htw_dispatcher_free(d);
		htw_close(timers);
	}
};

struct Call {
	Fixture *f;
	int who;
};

void note(htw_dispatcher *, std::uint64_t, void *arg)
{
	auto call = static_cast<Call *>(arg);

	call->f->made.push_back(call->who);
}

void maybe_throw(htw_dispatcher *d, std::uint64_t id, void *arg)
{
	static Call later;
	auto call = static_cast<Call *>(arg);

	note(d, id, arg);
	if (call->who != call->f->throws_at)
		return;
	later = { call->f, 100 };
	htw_call_after(d, HTW_SEC, note, &later, &call->f->last);
	throw call->who;
}

int failures;

void expect(bool right, const char *what, int line)
{
	if (right)
		return;
	std::printf("# line %d: %s\n", line, what);
	failures++;
}

#define EXPECT(what) expect(what, #what, __LINE__)

// One of 21 throws: the others are made afterwards, in order, by this thread or another one.
void others_are_made()
{
	for (int at = 0; at < 21; at++) {
		Fixture f;
		std::vector<Call> calls;
		int caught = -1, n = 0;

		f.throws_at = at;
		for (int i = 0; i < 21; i++)
			calls.push_back({ &f, i });
		for (auto &call : calls)
			EXPECT(!htw_call_after(f.d, HTW_SEC, maybe_throw, &call, nullptr));
		htw_advance(f.timers, HTW_SEC, 0);
		try {
			htw_dispatch(f.d, -1);
		} catch (int who) {
			caught = who;
		}
		EXPECT(caught == at);
		EXPECT(f.made.size() == at + 1u);

		// The function is not running any more.
		EXPECT(htw_call_again(f.d, f.last, HTW_SEC) == 0);
		if (at % 2)
			n = htw_dispatch(f.d, 0);
		else
			std::thread([&] { n = htw_dispatch(f.d, 0); }).join();
		EXPECT(n == 20 - at);
		EXPECT(f.made.size() == 21);
		for (int i = 0; i < 21; i++)
			EXPECT(f.made[i] == i);

		// What was asked for before it threw.
		htw_advance(f.timers, HTW_SEC, 0);
		EXPECT(htw_dispatch(f.d, 0) == 1);
		EXPECT(f.made.back() == 100);
	}
}

// A periodic call that throws each time goes on, as one that returns.
void periodic_goes_on()
{
	Fixture f;
	Call call = { &f, 0 };
	std::uint64_t id;
	int caught = 0;

	f.throws_at = 0;
	EXPECT(!htw_call_every(f.d, HTW_SEC, HTW_SEC, maybe_throw, &call, &id));
	for (int i = 0; i < 5; i++) {
		htw_advance(f.timers, HTW_SEC, 0);
		try {
			while (htw_dispatch(f.d, 0) > 0)
				;
		} catch (int) {
			caught++;
		}
		while (htw_dispatch(f.d, 0) > 0)
			;
	}
	EXPECT(caught == 5);
	EXPECT(htw_call_stop(f.d, id) == 0);
}

std::uint64_t throw_second(std::uint64_t previous, void *arg)
{
	auto call = static_cast<Call *>(arg);

	if (call->who++)
		throw std::runtime_error("no more");
	return previous + HTW_SEC;
}

// A schedule that throws has ended, and the dispatcher goes on.
void schedule_ends()
{
	Fixture f;
	Call call = { &f, 0 }, other = { &f, 7 };
	std::uint64_t id;
	bool caught = false;

	EXPECT(!htw_call_schedule(f.d, throw_second, note, &call, &id));
	EXPECT(!htw_call_after(f.d, HTW_SEC, note, &other, nullptr));
	htw_advance(f.timers, HTW_SEC, 0);
	try {
		htw_dispatch(f.d, 0);
	} catch (const std::runtime_error &) {
		caught = true;
	}
	EXPECT(caught);
	EXPECT(htw_call_stop(f.d, id) == -ENOENT);
	EXPECT(htw_dispatch(f.d, 0) == 1);
	EXPECT(f.made.size() == 1 && f.made[0] == 7);
}

// A thread that waits for a call learns that it was left.
void waiting_thread_comes_back()
{
	Fixture f;
	std::uint64_t id = 0;
	std::thread waiting;
	int ret = 1;

	struct Both {
		std::thread *waiting;
		std::uint64_t *id;
		int *ret;
	} both = { &waiting, &id, &ret };

	EXPECT(!htw_call_every(f.d, 0, HTW_SEC, [](htw_dispatcher *d, std::uint64_t call, void *arg) {
		auto b = static_cast<Both *>(arg);

		*b->waiting = std::thread([=] { *b->ret = htw_call_stop_wait(d, call); });
		// It has stopped the call, and waits, or is about to.
		while (htw_call_again(d, call, HTW_SEC) != -ENOENT)
			std::this_thread::yield();
		throw 1;
	}, &both, &id));
	try {
		htw_dispatch(f.d, 0);
		EXPECT(false);
	} catch (int) {
	}
	waiting.join();
	EXPECT(ret == 0);
	EXPECT(htw_dispatch(f.d, 0) == 0);
}

const struct {
	const char *name;
	void (*run)();
} tests[] = {
	{ "others_are_made", others_are_made },
	{ "periodic_goes_on", periodic_goes_on },
	{ "schedule_ends", schedule_ends },
	{ "waiting_thread_comes_back", waiting_thread_comes_back },
};

}

int main()
{
	const int count = sizeof(tests) / sizeof(*tests);
	int failed = 0;

	std::printf("TAP version 13\n1..%d\n", count);
	for (int i = 0; i < count; i++) {
		failures = 0;
		tests[i].run();
		std::printf("%sok %d exceptions.%s\n", failures ? "not " : "", i + 1, tests[i].name);
		failed += failures != 0;
	}
	return failed != 0;
}
