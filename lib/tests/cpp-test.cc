// SPDX-License-Identifier: GPL-2.0-only
// libhtw.hpp, with timers in the process, or on the device with HTW_TEST_BACKEND=device.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <libhtw.hpp>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>
#if defined(__has_include) && __cplusplus > 201703L
#include <ranges>
#endif

using namespace std::chrono_literals;
using libhtw::backend;

namespace {

backend where()
{
	const char *name = std::getenv("HTW_TEST_BACKEND");

	return name && !std::strcmp(name, "device") ? backend::device : backend::process;
}

libhtw::manual_handle manual() { return libhtw::manual_handle(where()); }

// Something that a function captures: counts those that are alive, and notes where one was freed.
std::atomic<int> alive{0};
std::atomic<std::thread::id> freed_in{};

struct owned {
	bool here = true;
	owned() { alive++; }
	owned(owned &&other) noexcept : here(std::exchange(other.here, false)) {}
	owned(const owned &) = delete;
	owned &operator=(const owned &) = delete;
	~owned()
	{
		if (!here)
			return;
		alive--;
		freed_in = std::this_thread::get_id();
	}
};

struct nothing_left {
	nothing_left() { alive = 0; }
	~nothing_left() { CHECK(alive == 0); }
};

template <class D> void all(D &d)
{
	while (d.dispatch(0s))
		;
}

template <class F> std::error_code thrown(F &&f)
{
	try {
		f();
	} catch (const std::system_error &e) {
		return e.code();
	}
	return {};
}

}

TEST_CASE("timers and their events")
{
	auto h = manual();
	int object = 0;
	const auto a = h.after(1s, 7), b = h.at(libhtw::manual_clock::time_point(2s), &object);
	const auto p = h.every(1s, 2s, 9);

	CHECK(a != libhtw::timer_id{});
	CHECK(h.info().timers == 3);
	CHECK(h.next_time());
	CHECK(h.remaining(a) == 1s);
	h.advance(999999999ns);
	CHECK(h.remaining(a) == 1ns);
	for (auto &e : h.events()) {
		CHECK(&e == nullptr);	// nothing is early
	}
	h.advance(1ns);
	CHECK(h.remaining(a) == 0ns);
	CHECK(h.remaining(b) == 1s);
	int n = 0;
	for (const auto &e : h.events()) {
		CHECK((n ? e.id == p && e.more && e.cookie.value == 9 : e.id == a && !e.more && e.cookie.value == 7));
		CHECK(e.deadline.time_since_epoch() == 1s);
		CHECK(e.taken.time_since_epoch() == 1s);
		n++;
	}
	CHECK(n == 2);
	CHECK(!h.remaining(a));
	CHECK(!h.stop(a));
	CHECK(!h.rearm(a, 1s));
	CHECK(h.rearm(b, 5s));
	h.advance(4s);
	for (const auto &e : h.events())
		CHECK((e.id == p && e.missed == 1));
	CHECK(h.stop(p));
	CHECK(h.wait(0s) == false);
	h.advance(1s);
	CHECK(h.wait());
	for (const auto &e : h.events())
		CHECK(e.pointer<int>() == &object);
	CHECK(!h.next_time());
}

TEST_CASE("a range that is left keeps what it has not come to, and ends")
{
	auto h = manual();

	for (unsigned i = 0; i < 1000; i++)
		h.after(0s, i);
	unsigned next = 0;
	for (int turn = 0; turn < 3; turn++) {
		for (const auto &e : h.events()) {
			CHECK(e.cookie.value == next++);
			if (turn == 0)
				break;
			if (turn == 1 && next == 3) {
				CHECK(h.wait(0s));
				break;
			}
		}
	}
	CHECK(next == 3 + 512);
	CHECK_THROWS_AS([&] {
		for (const auto &e : h.events()) {
			CHECK(e.cookie.value == next++);
			throw std::runtime_error("left");
		}
	}(), std::runtime_error);
	for (const auto &e : h.events(10))
		CHECK(e.cookie.value == next++);
	CHECK(next == 526);
	while (h.wait(0s))
		for (const auto &e : h.events())
			CHECK(e.cookie.value == next++);
	CHECK(next == 1000);

	// Timers that start each other at once.
	h.after(0s);
	unsigned fed = 0;
	for (auto &&e : h.events()) {
		CHECK(e.id != libhtw::timer_id{});
		h.after(0s);
		h.after(0s);
		fed++;
	}
	CHECK(fed <= 512);
}

#if defined(__cpp_lib_ranges) && !(defined(__clang__) && __clang_major__ < 16)
TEST_CASE("events are a range of C++20")
{
	auto h = manual();
	auto events = h.events();

	static_assert(std::ranges::input_range<decltype(events)>);
	static_assert(std::input_iterator<decltype(events.begin())>);
	h.after(0s, 1);
	h.after(0s, 2);
	unsigned sum = 0;
	for (const auto &e : events | std::views::filter([](auto &e) { return e.cookie.value == 2; }))
		sum += static_cast<unsigned>(e.cookie.value);
	CHECK(sum == 2);
}
#endif

TEST_CASE("durations and times of any kind")
{
	auto deadline = [](auto d) {
		auto h = manual();
		const auto id = h.after(d);
		htw_timer_info info{};

		info.id = static_cast<std::uint64_t>(id);
		REQUIRE(!htw_query(h.native_handle(), &info));
		return info.deadline;
	};
	using real = std::chrono::duration<double>;

	CHECK(deadline(1.5s) == 1500000000);
	CHECK(deadline(-1s) == 0);
	CHECK(deadline(real(NAN)) == 0);
	CHECK(deadline(real(-INFINITY)) == 0);
	CHECK(deadline(real(INFINITY)) == INT64_MAX);
	CHECK(deadline(std::chrono::hours::max()) == INT64_MAX);
	CHECK(deadline(std::chrono::hours::min()) == 0);
	CHECK(deadline(std::chrono::nanoseconds::max()) == INT64_MAX);
	CHECK(deadline(std::chrono::duration<int, std::pico>(1)) == 1);	// rounded up: never early
	CHECK(deadline(std::chrono::duration<std::int64_t, std::ratio<1, 3>>(1)) == 333333334);
	CHECK(deadline(real(1e-10)) == 1);
}

TEST_CASE("each clock")
{
	libhtw::realtime_handle real(where());
	libhtw::boottime_handle boot(where());
	libhtw::handle steady(where());
	auto near = [](auto a, auto b) { return a - b < 60s && b - a < 60s; };

	CHECK(real.info().clock == CLOCK_REALTIME);
	CHECK(boot.info().clock == CLOCK_BOOTTIME);
	CHECK(steady.info().clock == CLOCK_MONOTONIC);
	CHECK(near(real.now(), std::chrono::system_clock::now()));
	CHECK(near(steady.now(), std::chrono::steady_clock::now()));
	CHECK(near(boot.now(), libhtw::boottime_clock::now()));
	real.at(std::chrono::system_clock::now());
	boot.at(libhtw::boottime_clock::now() - 1h);
	CHECK(real.wait());
	CHECK(boot.wait());
	const auto when = std::chrono::steady_clock::now() + 5ms;
	steady.at(when);
	CHECK(steady.wait());
	CHECK(std::chrono::steady_clock::now() >= when);
}

TEST_CASE("errors are thrown or stored")
{
	std::error_code ec = std::make_error_code(std::errc::io_error);
	libhtw::settings how;

	how.limit = 1;
	libhtw::manual_handle h(where(), how, ec);
	CHECK(!ec);
	h.after(1s, 0, ec);
	CHECK(!ec);
	CHECK(h.after(1s, 0, ec) == libhtw::timer_id{});
	CHECK(ec == std::errc::no_space_on_device);
	CHECK(thrown([&] { h.after(1s); }) == std::errc::no_space_on_device);
	h.every(0s, 0s, {}, ec);
	CHECK(ec == std::errc::invalid_argument);
	CHECK(!h.stop(libhtw::timer_id(123), ec));
	CHECK(!ec);

	how.tick = 1h;
	libhtw::handle bad(where(), how, ec);
	CHECK(ec == std::errc::result_out_of_range);
	CHECK(!bad);
	CHECK(thrown([&] { libhtw::handle(where(), how); }) == std::errc::result_out_of_range);
	CHECK(thrown([&] { libhtw::dispatcher(where(), how); }) == std::errc::result_out_of_range);

	libhtw::manual_dispatcher d(std::move(h));
	nothing_left check;
	CHECK(thrown([&] { d.call_after(1s, [o = owned()] {}); }) == std::errc::no_space_on_device);
	CHECK(alive == 0);
	d.call_every(1s, 0s, [o = owned()] {}, ec);
	CHECK(ec == std::errc::invalid_argument);
	CHECK(alive == 0);
}

TEST_CASE("what was moved from is closed")
{
	auto h = manual();
	auto h2 = std::move(h);
	const auto closed = std::errc::bad_file_descriptor;
	std::error_code ec;

	CHECK(!h);
	CHECK(h.fd() == -1);
	CHECK(h.native_handle() == nullptr);
	CHECK(thrown([&] { h.after(1s); }) == closed);
	CHECK(thrown([&] { h.now(); }) == closed);
	CHECK(thrown([&] { h.info(); }) == closed);
	CHECK(thrown([&] { h.wait(); }) == closed);
	CHECK(thrown([&] { h.shard(); }) == closed);
	CHECK(thrown([&] { for (auto &e : h.events()) CHECK(&e == nullptr); }) == closed);
	for (auto &e : h.events(5, ec))
		CHECK(&e == nullptr);
	CHECK(ec == closed);
	CHECK(!h.stop(libhtw::timer_id(1), ec));
	CHECK(ec == closed);
	CHECK(thrown([&] { libhtw::manual_dispatcher d(std::move(h)); }) == closed);
	h.close();

	auto t = h2.own(h2.after(1s));
	auto t2 = std::move(t);
	CHECK(!t);
	CHECK(!t.stop());
	CHECK(!t.rearm(1s));
	CHECK(h2.info().timers == 1);
	t2 = h2.own(h2.after(1s));	// stops the first
	CHECK(h2.info().timers == 1);
	{ auto t3 = std::move(t2); }
	CHECK(h2.info().timers == 0);
	t = h2.own(h2.timeout(1s));
	CHECK(t.put_off(h2.now() + 3s));
	CHECK(t.remaining() == 3s);
	CHECK(!t2.remaining());
	h2.own(t.release()).release();
	CHECK(h2.info().timers == 1);
	t = h2.own(h2.after(1s));
	h2 = manual();
	CHECK(!t.remaining());
	CHECK(!t.stop());		// outlived its handle

	libhtw::manual_dispatcher d(std::move(h2)), d2(std::move(d));
	CHECK(!d);
	CHECK(d.fd() == -1);
	CHECK(thrown([&] { d.dispatch(); }) == closed);
	CHECK(thrown([&] { d.call_after(1s, [] {}); }) == closed);
	CHECK(thrown([&] { d.call_stop(libhtw::call_id(1)); }) == closed);
	CHECK(thrown([&] { d.stop_all(); }) == closed);
	auto c = d2.own(d2.call_after(1s, [] {}));
	auto c2 = std::move(c);
	CHECK(!c.stop());
	CHECK(!c.again(1s));
	CHECK(c2.again(2s));
	d2 = libhtw::manual_dispatcher(manual());
	CHECK(!c2.again(1s));
	CHECK(!c2.stop());
}

TEST_CASE("shards outlive their handle")
{
	if (where() == backend::device) {
		CHECK(thrown([] { manual().shard(); }) == std::errc::not_supported);
		return;
	}
	libhtw::manual_handle shard = [] {
		auto h = manual();
		auto s = h.shard();
		const auto id = s.after(1s);

		CHECK(h.stop(id));
		h.after(1s);
		return s;
	}();
	auto t = shard.own(shard.after(1s));
	auto other = shard.shard();
	const auto id = other.after(2s, 5);
	CHECK(shard.rearm(id, 1s));
	shard.close();
	CHECK(!t.stop());
	other.advance(1s);
	for (auto &e : other.events())
		CHECK(e.cookie.value == 5);
}

TEST_CASE("a handle of C is adopted if its clock is right")
{
	htw *opened = nullptr;
	std::error_code ec;

	REQUIRE(!htw_open(&opened, static_cast<enum htw_backend>(where()), nullptr));
	CHECK(!libhtw::realtime_handle::adopt(opened, ec));
	CHECK(ec == std::errc::invalid_argument);
	auto h = libhtw::handle::adopt(opened);
	h.after(0s);
	CHECK(h.wait());
}

TEST_CASE("functions are freed once: made, stopped, pending")
{
	nothing_left check;
	libhtw::manual_dispatcher d(manual());
	int made = 0;
	const auto here = std::this_thread::get_id();

	d.call_after(1s, [o = owned(), &made] { made++; });
	const auto stopped = d.call_after(1s, [o = owned(), &made] { made++; });
	d.call_every(1s, 1s, [o = owned(), &made](libhtw::this_call &c) {
		if (++made == 4)
			c.stop();
		CHECK(alive > 0);
	});
	d.call_after(1h, [o = owned()] {});
	CHECK(alive == 4);
	CHECK(d.call_stop(stopped));
	CHECK(alive == 3);
	CHECK(!d.call_stop(stopped));
	CHECK(!d.call_again(stopped, 1s));
	for (int i = 0; i < 5; i++) {
		d.advance(1s);
		all(d);
	}
	CHECK(made == 4);
	CHECK(alive == 1);
	CHECK(freed_in.load() == here);
	d.stop_all();
	CHECK(alive == 0);
	d.call_after(1h, [o = owned()] {});
	CHECK(alive == 1);
}

TEST_CASE("a call that has itself made again keeps what it owns")
{
	nothing_left check;
	libhtw::manual_dispatcher d(manual());
	int made = 0;

	d.call_after(1s, [o = owned(), &made](libhtw::this_call &c) {
		if (++made < 3)
			CHECK(c.again(1s));
	});
	for (int i = 1; i < 5; i++) {
		d.advance(1s);
		all(d);
		CHECK(made == (i < 3 ? i : 3));
		CHECK(alive == (i < 3));
	}
}

TEST_CASE("functions that throw")
{
	nothing_left check;
	libhtw::manual_dispatcher d(manual());
	int caught = 0, made = 0;

	d.call_after(1s, [o = owned()] { throw 1; });
	d.call_every(1s, 1s, [o = owned()](libhtw::this_call &c) {
		if (c.missed() == 0)
			throw 2;
	});
	d.call_after(1s, [o = owned(), &made] { made++; });
	d.call_after(1s, [o = owned()](libhtw::this_call &c) { c.again(1h); throw 3; });
	d.advance(1s);
	for (int i = 0; i < 4; i++) {
		try {
			all(d);
		} catch (int what) {
			caught = caught * 10 + what;
		}
	}
	CHECK(caught == 123);
	CHECK(made == 1);
	CHECK(alive == 2);	// the periodic one, and the one that is made again
}

TEST_CASE("schedules")
{
	nothing_left check;
	libhtw::manual_dispatcher d(manual());
	using time = libhtw::manual_dispatcher::time_point;
	int made = 0, left = 3;
	std::error_code ec;

	d.call_schedule([o = owned(), left](time t) mutable {
		return left-- ? std::optional<time>(t + 1s) : std::nullopt;
	}, [o = owned(), &made] { made++; });
	for (int i = 0; i < 5; i++) {
		d.advance(1s);
		all(d);
	}
	CHECK(made == 3);
	CHECK(alive == 0);

	d.call_schedule([o = owned()](time) -> std::optional<time> { return {}; }, [] {}, ec);
	CHECK(ec == std::errc::invalid_argument);
	CHECK_THROWS_AS(d.call_schedule([o = owned()](time) -> time { throw 5; }, [] {}), int);
	CHECK(alive == 0);
	d.call_schedule([o = owned(), &left](time t) {
		if (!--left)
			throw 6;
		return t + 1s;
	}, [] {});
	left = 1;
	CHECK(alive == 1);
	d.advance(1s);
	CHECK_THROWS_AS(d.dispatch(0s), int);
	CHECK(alive == 0);
}

TEST_CASE("a call stops itself through its owner, which it owns")
{
	nothing_left check;
	libhtw::manual_dispatcher d(manual());

	struct connection {
		owned o;
		libhtw::basic_call<libhtw::manual_clock> idle;
	};
	for (int kind = 0; kind < 3; kind++) {
		auto conn = std::make_shared<connection>();

		conn->idle = d.own(d.call_every(1s, 1s, [conn, kind] {
			if (kind == 0)
				CHECK(conn->idle.stop());
			else if (kind == 1)
				conn->idle = {};
		}));
		conn.reset();
		CHECK(alive == 1);
		d.advance(1s);
		all(d);
		if (kind == 2)
			d.stop_all();
		CHECK(alive == 0);
	}
	std::error_code ec;
	libhtw::call_id id{};
	id = d.call_after(1s, [&] {
		d.call_stop_wait(id, ec);
	});
	d.advance(1s);
	all(d);
	CHECK(ec == std::errc::resource_deadlock_would_occur);
}

TEST_CASE("a call destroys its dispatcher, beside others that are due and pending")
{
	for (bool throws : { false, true }) {
		nothing_left check;
		auto d = std::make_unique<libhtw::manual_dispatcher>(manual());
		libhtw::basic_call<libhtw::manual_clock> outlives;
		int made = 0;

		for (int i = 0; i < 3; i++)
			d->call_every(1s, 1s, [o = owned(), &d, &made, throws, first = !i] {
				made++;
				if (!first)
					return;
				d.reset();
				CHECK(alive == 1);	// what is running
				if (throws)
					throw 1;
			});
		outlives = d->own(d->call_after(1h, [o = owned()] {}));
		d->advance(1s);
		auto *raw = d.get();
		int caught = 0;
		std::size_t n = 0;
		try {
			n = raw->dispatch(0s);
		} catch (int) {
			caught++;
		}
		CHECK((throws ? caught == 1 : n == 1));
		CHECK(made == 1);
		CHECK(!d);
		CHECK(!outlives.stop());
	}
}

TEST_CASE("what a call captures uses the dispatcher as it is freed")
{
	nothing_left check;
	auto d = std::make_unique<libhtw::manual_dispatcher>(manual());
	struct uses {
		libhtw::manual_dispatcher *d;
		std::unique_ptr<owned> o = std::make_unique<owned>();
		libhtw::basic_call<libhtw::manual_clock> other;
		uses(libhtw::manual_dispatcher *of) : d(of), other(of->own(of->call_after(1h, [p = owned()] {}))) {}
		uses(uses &&) = default;
		~uses()
		{
			std::error_code ec;

			if (o && *d) {
				d->call_after(1h, [p = owned()] {}, ec);
				d->dispatch(0s, ec);
			}
		}
	};
	d->call_after(1s, [u = uses(d.get())] {});
	const auto id = d->call_after(1h, [u = uses(d.get())] {});
	d->call_after(1h, [u = uses(d.get())] {});
	CHECK(alive == 6);
	d->advance(1s);
	all(*d);
	CHECK(alive == 5);	// its two are freed, and a new one is there
	CHECK(d->call_stop(id));
	CHECK(alive == 4);
	// One that owns its dispatcher, and is stopped.
	auto *raw = d.get();
	const auto last = raw->call_after(1h, [own = std::move(d)] {});
	CHECK(raw->call_stop(last));
	CHECK(alive == 0);
}

TEST_CASE("a call of another thread is waited for")
{
	nothing_left check;
	libhtw::dispatcher d(where());
	std::atomic<bool> running{false}, over{false}, stopping{false};
	std::thread::id dispatching;
	bool stopped = false;
	auto call = d.own(d.call_every(0s, 1h, [&, o = owned()] {
		running = true;
		while (!stopping)
			std::this_thread::yield();
		for (int i = 0; i < 1000; i++)
			std::this_thread::yield();
		over = true;
	}));

	std::thread t([&] {
		dispatching = std::this_thread::get_id();
		d.dispatch();
	});
	const auto thread = t.get_id();
	while (!running)
		std::this_thread::yield();
	stopping = true;
	stopped = call.stop();
	CHECK(stopped);
	CHECK(over);
	CHECK(alive == 0);
	CHECK(freed_in.load() == thread);
	t.join();
	CHECK(dispatching == thread);
}

TEST_CASE("a call of another thread is moved, and stopped, while it is running")
{
	nothing_left check;
	libhtw::dispatcher d(where());
	// How often it has begun, and may end.
	std::atomic<int> begun{0}, may_end{0};
	auto call = d.own(d.call_after(0s, [&, o = owned()] {
		begun++;
		while (may_end < begun)
			std::this_thread::yield();
	}));
	std::thread t([&] {
		while (alive)
			d.dispatch();
	});

	while (begun < 1)
		std::this_thread::yield();
	const bool again = call.again(0s);
	may_end = 1;
	while (begun < 2)
		std::this_thread::yield();
	// Made twice, and stopped as it is running: true, as it will not be made again.
	const bool moved = call.again(0s), stopped = d.call_stop(call.id());
	may_end = 2;
	t.join();
	CHECK(again);
	CHECK(moved);
	CHECK(stopped);
	CHECK(!call.stop());
	CHECK(begun.load() == 2);
}

namespace {

// What one call has been through: how often it was made and freed.
struct seen {
	std::atomic<int> made{0}, freed{0};
	bool moved = false, stopped = false;
};

// Kept by what a call captures: notes that it is freed.
using noted = std::unique_ptr<seen, void (*)(seen *)>;

noted note(seen &s)
{
	return noted(&s, [](seen *freed) { freed->freed++; });
}

}

// If a call is running, again() has it made once more, and stop() returns true. So one that was
// moved may be made twice, and one that was stopped may have been made.
TEST_CASE("threads start, move and stop calls while one dispatches")
{
	nothing_left check;
	constexpr int threads = 3, each = 2000;
	std::vector<seen> all(threads * each);
	// Stopped, with true, after it had been freed; not freed when stop() had returned.
	std::atomic<int> too_late{0}, in_use{0};
	{
		libhtw::dispatcher d(where());
		std::vector<std::thread> running;
		std::atomic<int> left{threads};

		for (int t = 0; t < threads; t++)
			running.emplace_back([&, t] {
				for (int i = 0; i < each; i++) {
					seen &s = all[static_cast<std::size_t>(t * each + i)];
					const auto delay = std::chrono::microseconds(i % 7 * 500);
					auto c = d.own(d.call_after(delay, [s = note(s), o = owned()] {
						s->made++;
					}));
					if ((i + t) % 3 == 0)
						s.moved = c.again(1ms);
					if ((i + t) % 2) {
						const bool had_ended = s.freed;

						s.stopped = c.stop();
						too_late += had_ended && s.stopped;
						in_use += s.freed != 1;
					} else {
						c.release();
					}
				}
				left--;
			});
		while (left || alive)
			d.dispatch(10ms);
		for (auto &t : running)
			t.join();
		CHECK(d.info().timers == 0);
	}
	CHECK(too_late.load() == 0);
	CHECK(in_use.load() == 0);
	int freed_once = 0, lost = 0, too_often = 0;
	for (const auto &s : all) {
		freed_once += s.freed == 1;
		lost += !s.made && !s.stopped;
		too_often += s.made > (s.moved ? 2 : 1);
	}
	CHECK(freed_once == threads * each);
	CHECK(lost == 0);
	CHECK(too_often == 0);
}
