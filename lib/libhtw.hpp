// SPDX-License-Identifier: MIT
/*
 * libhtw for C++17 and newer: millions of timeouts, in the kernel or in the process
 *
 * handle      a set of timers, named by numbers; their events are a range
 * timer       owns one of them, and stops it when it goes
 * dispatcher  calls functions at their time, and owns what they capture
 * call        owns one of its calls, and stops it when it goes
 *
 * All four can be moved, not copied. Where one has been moved from, or has been closed, using it is
 * an error, std::errc::bad_file_descriptor. Times are those of std::chrono: any duration, rounded up
 * to nanoseconds, a negative one as zero; and time points of the clock of the handle, which is in its
 * type, so that those of other clocks do not compile.
 *
 * A function that can fail throws std::system_error, or takes a std::error_code as its last argument
 * and stores the error there, or clears it. That a timer or a call has ended is no error: the
 * functions that find out return false.
 *
 * What libhtw.h says of threads, of fork() and of each function is true here, too.
 */
#ifndef LIBHTW_HPP
#define LIBHTW_HPP

#include <libhtw.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace libhtw {

enum class backend {
	device = HTW_BACKEND_DEVICE,
	process = HTW_BACKEND_PROCESS,
	any = HTW_BACKEND_ANY,
};

/* How a handle is set up; zeros are the defaults. */
struct settings {
	bool exact = false;			/* a tick of 10 us */
	bool ordered = false;			/* one order of events on all CPUs */
	bool priority_inheritance = false;	/* of the lock, in the process */
	std::chrono::nanoseconds tick{};
	std::uint64_t limit = 0;		/* most timers */
};

/* Numbers that name a timer of a handle, and a call of a dispatcher; none is zero. */
enum class timer_id : std::uint64_t {};
enum class call_id : std::uint64_t {};

/* The time since the system was started, also while it was suspended: CLOCK_BOOTTIME. */
struct boottime_clock {
	using duration = std::chrono::nanoseconds;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<boottime_clock>;
	static constexpr bool is_steady = true;

	static time_point now() noexcept
	{
		timespec t{};

		::clock_gettime(CLOCK_BOOTTIME, &t);
		return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
	}
};

/* A clock that starts at zero and that advance() moves; each handle has its own, so there is no now(). */
struct manual_clock {
	using duration = std::chrono::nanoseconds;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<manual_clock>;
	static constexpr bool is_steady = true;
};

/* The kernel's number of a clock; there is none for others, which do not compile. */
template <class Clock> struct clock_number;
template <> struct clock_number<std::chrono::steady_clock> : std::integral_constant<int, CLOCK_MONOTONIC> {};
template <> struct clock_number<std::chrono::system_clock> : std::integral_constant<int, CLOCK_REALTIME> {};
template <> struct clock_number<boottime_clock> : std::integral_constant<int, CLOCK_BOOTTIME> {};
template <> struct clock_number<manual_clock> : std::integral_constant<int, HTW_CLOCK_MANUAL> {};

/* What comes back with an event: a number, or a pointer. */
struct cookie {
	std::uint64_t value;

	cookie(std::uint64_t number = 0) noexcept : value(number) {}
	template <class T> cookie(T *pointer) noexcept
		: value(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer))) {}
	template <class T> T *pointer() const noexcept
	{
		return reinterpret_cast<T *>(static_cast<std::uintptr_t>(value));
	}
};

namespace detail {

inline std::error_code error(int negative_errno) noexcept
{
	return { -negative_errno, std::generic_category() };
}

[[noreturn]] inline void fail(const std::error_code &ec, const char *what)
{
#if defined(__cpp_exceptions)
	throw std::system_error(ec, what);
#else
	static_cast<void>(ec);
	static_cast<void>(what);
	std::abort();
#endif
}

/* Call f(ec), and throw if it has stored an error. */
template <class F> auto or_throw(const char *what, F &&f)
{
	std::error_code ec;
	auto result = f(ec);

	if (ec)
		fail(ec, what);
	return result;
}

/* Store the result of a function that returns 0 or a negative errno. */
inline bool check(int result, std::error_code &ec) noexcept
{
	ec = result < 0 ? error(result) : std::error_code();
	return result >= 0;
}

/* The same where -ENOENT says that the timer or the call has ended. */
inline bool check_found(int result, std::error_code &ec) noexcept
{
	return check(result == -ENOENT ? 0 : result, ec) && result != -ENOENT;
}

/*
 * Nanoseconds, rounded up: a timer is never early. Below zero, and what is no number, is zero, and
 * what is beyond the range is its end.
 */
template <class Rep, class Period> std::uint64_t to_ns(const std::chrono::duration<Rep, Period> &d) noexcept
{
	using std::chrono::nanoseconds;
	using wide = std::chrono::duration<long double, std::nano>;
	constexpr auto most = std::numeric_limits<std::int64_t>::max();

	if (!(d > std::chrono::duration<Rep, Period>::zero()))
		return 0;
	if (std::chrono::duration_cast<wide>(d).count() >= static_cast<long double>(most))
		return most;
	auto ns = std::chrono::duration_cast<nanoseconds>(d);
	if (ns < d)
		++ns;
	return static_cast<std::uint64_t>(ns.count());
}

template <class Clock, class Duration>
std::uint64_t to_ns(const std::chrono::time_point<Clock, Duration> &t) noexcept
{
	return to_ns(t.time_since_epoch());
}

inline std::chrono::nanoseconds to_duration(std::uint64_t ns) noexcept
{
	constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

	return std::chrono::nanoseconds(static_cast<std::int64_t>(ns < most ? ns : most));
}

template <class Clock> auto to_time(std::uint64_t ns) noexcept
{
	return std::chrono::time_point<Clock, std::chrono::nanoseconds>(to_duration(ns));
}

/* The end of a wait is not before the timeout. */
inline std::int64_t to_timeout(std::uint64_t ns) noexcept
{
	return static_cast<std::int64_t>(ns);
}

inline std::optional<std::chrono::nanoseconds> remaining(::htw *htw, std::uint64_t id)
{
	std::uint64_t ns = 0;
	const bool found = or_throw("libhtw::remaining", [&](auto &ec) {
		return check_found(::htw_remaining(htw, id, &ns), ec);
	});

	if (!found)
		return std::nullopt;
	return to_duration(ns);
}

/*
 * An open set of timers. A shard keeps that of its handle, which must be closed last; timers that
 * are owned keep the one they are in, and find it closed when its handle is.
 */
struct set {
	::htw *htw = nullptr;
	std::shared_ptr<set> first;	/* of a shard */
	bool closed = false;

	explicit set(::htw *opened, std::shared_ptr<set> of = nullptr) noexcept
		: htw(opened), first(std::move(of)), users_(1)
	{
		if (first)
			first->users_.fetch_add(1, std::memory_order_relaxed);
	}
	set(const set &) = delete;
	set &operator=(const set &) = delete;
	~set() = default;

	void close() noexcept
	{
		closed = true;
		if (users_.load(std::memory_order_acquire) > 1)
			::htw_cancel_all(htw);	/* its shards still need it */
		leave();
	}

private:
	void leave() noexcept
	{
		if (users_.fetch_sub(1, std::memory_order_acq_rel) > 1)
			return;
		::htw_close(htw);
		if (first)
			first->leave();
	}

	std::atomic<int> users_;
};

}

template <class Clock> class basic_handle;
template <class Clock> class basic_timer;
template <class Clock> class basic_dispatcher;

/* A timer has fired. */
template <class Clock> struct basic_event {
	using time_point = std::chrono::time_point<Clock, std::chrono::nanoseconds>;

	timer_id id{};
	libhtw::cookie cookie{};
	time_point deadline{};
	time_point taken{};		/* when it was read */
	std::uint64_t missed = 0;	/* further firings of a periodic timer */
	bool more = false;		/* the id has not ended: it will fire again */

	template <class T> T *pointer() const noexcept { return cookie.template pointer<T>(); }
};

namespace detail {

/* Events that have been read and not been handed out. */
template <class Clock> struct queue {
	std::array<basic_event<Clock>, 64> events;
	std::size_t next = 0, end = 0;

	bool empty() const noexcept { return next == end; }

	/* Return whether more may be due. */
	bool fill(::htw *htw, std::error_code &ec) noexcept
	{
		std::array<htw_event, 64> raw;
		const int n = ::htw_read(htw, raw.data(), static_cast<unsigned int>(raw.size()));

		next = end = 0;
		if (!check(n, ec))
			return false;
		for (const auto count = static_cast<std::size_t>(n); end < count; end++) {
			const htw_event &from = raw[end];

			events[end] = { timer_id(from.id), libhtw::cookie(from.cookie),
					to_time<Clock>(from.deadline), to_time<Clock>(from.taken),
					from.missed, (from.flags & HTW_EVENT_MORE) != 0 };
		}
		return end == raw.size();
	}
};

}

/*
 * The events that are due: an input range, which ends after a number of them, so that timers which
 * start each other cannot keep a loop from ending. What a loop that is left has not come to is kept
 * for the next range of the handle.
 */
template <class Clock> class event_range {
public:
	struct sentinel {};

	class iterator {
	public:
		using iterator_category = std::input_iterator_tag;
		using iterator_concept = std::input_iterator_tag;
		using value_type = basic_event<Clock>;
		using difference_type = std::ptrdiff_t;
		using pointer = const value_type *;
		using reference = const value_type &;

		iterator() = default;
		reference operator*() const noexcept { return range_->current_; }
		pointer operator->() const noexcept { return &range_->current_; }
		iterator &operator++() { range_->advance(); return *this; }
		void operator++(int) { ++*this; }
		friend bool operator==(const iterator &i, sentinel) noexcept { return i.is_over(); }
		friend bool operator!=(const iterator &i, sentinel s) noexcept { return !(i == s); }
#if !defined(__cpp_impl_three_way_comparison)
		friend bool operator==(sentinel s, const iterator &i) noexcept { return i == s; }
		friend bool operator!=(sentinel s, const iterator &i) noexcept { return !(i == s); }
#endif
	private:
		friend event_range;
		explicit iterator(event_range *range) noexcept : range_(range) {}
		bool is_over() const noexcept { return range_->over_; }
		event_range *range_ = nullptr;
	};

	iterator begin() { advance(); return iterator(this); }
	sentinel end() const noexcept { return {}; }

private:
	friend basic_handle<Clock>;
	event_range(::htw *htw, detail::queue<Clock> *queue, std::size_t most, std::error_code *ec) noexcept
		: htw_(htw), queue_(queue), left_(most), ec_(ec) {}

	void advance()
	{
		std::error_code ec;

		over_ = true;
		if (!left_)
			return;
		if (queue_->empty()) {
			if (!more_)
				return;
			more_ = queue_->fill(htw_, ec);
			if (ec_)
				*ec_ = ec;
			else if (ec)
				detail::fail(ec, "libhtw::handle::events");
			if (queue_->empty())
				return;
		}
		current_ = queue_->events[queue_->next++];
		left_--;
		over_ = false;
	}

	::htw *htw_;
	detail::queue<Clock> *queue_;
	std::size_t left_;
	std::error_code *ec_;
	basic_event<Clock> current_{};
	bool more_ = true, over_ = false;
};

/* A set of timers, whose times are on Clock. */
template <class Clock> class basic_handle {
public:
	using clock = Clock;
	using duration = std::chrono::nanoseconds;
	using time_point = std::chrono::time_point<Clock, duration>;
	using event = basic_event<Clock>;
	using timer = basic_timer<Clock>;

	explicit basic_handle(backend where = backend::any, const settings &how = {})
	{
		std::error_code ec;

		open(where, how, ec);
		if (ec)
			detail::fail(ec, "libhtw::handle");
	}
	basic_handle(backend where, const settings &how, std::error_code &ec) { open(where, how, ec); }
	basic_handle(basic_handle &&) noexcept = default;
	basic_handle &operator=(basic_handle &&other) noexcept
	{
		if (this != &other) {
			close();
			set_ = std::move(other.set_);
			queue_ = std::move(other.queue_);
		}
		return *this;
	}
	~basic_handle() { close(); }

	/* Take over what htw_open() or htw_open_fd() has opened, if its clock is Clock. */
	static basic_handle adopt(::htw *opened, std::error_code &ec)
	{
		basic_handle h{empty{}};
		htw_info_args info{};

		if (!detail::check(::htw_info(opened, &info), ec))
			return h;
		if (info.clock != clock_number<Clock>::value)
			ec = std::make_error_code(std::errc::invalid_argument);
		else
			h.set_ = std::make_shared<detail::set>(opened);
		return h;
	}
	static basic_handle adopt(::htw *opened)
	{
		return detail::or_throw("libhtw::handle::adopt", [&](auto &ec) { return adopt(opened, ec); });
	}

	/* End the timers, unless other descriptors of the device have them. */
	void close() noexcept
	{
		if (set_)
			set_->close();
		set_.reset();
		queue_.reset();
	}

	/* Timers of its own for a thread, in the process. */
	basic_handle shard(std::error_code &ec) const
	{
		basic_handle h{empty{}};
		::htw *opened = nullptr;

		if (!detail::check(set_ ? ::htw_shard(&opened, set_->htw) : -EBADF, ec))
			return h;
		h.set_ = std::make_shared<detail::set>(opened, set_->first ? set_->first : set_);
		return h;
	}
	basic_handle shard() const
	{
		return detail::or_throw("libhtw::handle::shard", [&](auto &ec) { return shard(ec); });
	}

	explicit operator bool() const noexcept { return set_ != nullptr; }
	::htw *native_handle() const noexcept { return set_ ? set_->htw : nullptr; }
	/* For poll(), epoll or a loop. -1 if it is closed. */
	int fd() const noexcept { return set_ ? ::htw_fd(set_->htw) : -1; }
	libhtw::backend where() const { return static_cast<libhtw::backend>(::htw_backend(open_set())); }
	time_point now() const { return detail::to_time<Clock>(::htw_now(open_set())); }

	/* Tick, limit, number of timers and others. */
	htw_info_args info() const
	{
		htw_info_args args{};
		const int ret = ::htw_info(open_set(), &args);

		if (ret)
			detail::fail(detail::error(ret), "libhtw::handle::info");
		return args;
	}

	/* A time before which nothing is due; none if nothing is pending. */
	std::optional<time_point> next_time() const
	{
		std::uint64_t when = 0;
		const int ret = ::htw_next_time(open_set(), &when);

		if (ret && ret != -ENOENT)
			detail::fail(detail::error(ret), "libhtw::handle::next_time");
		return ret ? std::nullopt : std::optional<time_point>(detail::to_time<Clock>(when));
	}

	/* Start a timer that expires after a delay. */
	template <class Rep, class Period>
	timer_id after(const std::chrono::duration<Rep, Period> &d, cookie c, std::error_code &ec)
	{
		std::uint64_t id = 0;

		detail::check(set_ ? ::htw_after(set_->htw, detail::to_ns(d), c.value, &id) : -EBADF, ec);
		return timer_id(id);
	}
	template <class Rep, class Period>
	timer_id after(const std::chrono::duration<Rep, Period> &d, cookie c = {})
	{
		return detail::or_throw("libhtw::handle::after", [&](auto &ec) { return after(d, c, ec); });
	}

	/* The same for one that put_off() can move. */
	template <class Rep, class Period>
	timer_id timeout(const std::chrono::duration<Rep, Period> &d, cookie c, std::error_code &ec)
	{
		std::uint64_t id = 0;

		detail::check(set_ ? ::htw_timeout(set_->htw, detail::to_ns(d), c.value, &id) : -EBADF, ec);
		return timer_id(id);
	}
	template <class Rep, class Period>
	timer_id timeout(const std::chrono::duration<Rep, Period> &d, cookie c = {})
	{
		return detail::or_throw("libhtw::handle::timeout", [&](auto &ec) { return timeout(d, c, ec); });
	}

	/* Start a timer that expires at a point in time. */
	template <class Duration>
	timer_id at(const std::chrono::time_point<Clock, Duration> &when, cookie c, std::error_code &ec)
	{
		std::uint64_t id = 0;

		detail::check(set_ ? ::htw_at(set_->htw, detail::to_ns(when), c.value, &id) : -EBADF, ec);
		return timer_id(id);
	}
	template <class Duration>
	timer_id at(const std::chrono::time_point<Clock, Duration> &when, cookie c = {})
	{
		return detail::or_throw("libhtw::handle::at", [&](auto &ec) { return at(when, c, ec); });
	}

	/* Start a periodic timer; a period of zero is invalid. */
	template <class Rep1, class Period1, class Rep2, class Period2>
	timer_id every(const std::chrono::duration<Rep1, Period1> &first,
		       const std::chrono::duration<Rep2, Period2> &interval, cookie c, std::error_code &ec)
	{
		std::uint64_t id = 0;

		detail::check(set_ ? ::htw_every(set_->htw, detail::to_ns(first), detail::to_ns(interval),
						 c.value, &id) : -EBADF, ec);
		return timer_id(id);
	}
	template <class Rep1, class Period1, class Rep2, class Period2>
	timer_id every(const std::chrono::duration<Rep1, Period1> &first,
		       const std::chrono::duration<Rep2, Period2> &interval, cookie c = {})
	{
		return detail::or_throw("libhtw::handle::every",
					[&](auto &ec) { return every(first, interval, c, ec); });
	}

	/* Give a timer a new deadline. False if it has ended. */
	template <class Rep, class Period>
	bool rearm(timer_id id, const std::chrono::duration<Rep, Period> &d, std::error_code &ec)
	{
		return detail::check_found(set_ ? ::htw_rearm(set_->htw, number(id), detail::to_ns(d)) : -EBADF, ec);
	}
	template <class Rep, class Period> bool rearm(timer_id id, const std::chrono::duration<Rep, Period> &d)
	{
		return detail::or_throw("libhtw::handle::rearm", [&](auto &ec) { return rearm(id, d, ec); });
	}

	/* Move the deadline of a timeout() later by a store. False if it has ended, or is of another kind. */
	template <class Duration>
	bool put_off(timer_id id, const std::chrono::time_point<Clock, Duration> &when, std::error_code &ec)
	{
		return detail::check_found(set_ ? ::htw_put_off_inline(set_->htw, number(id), detail::to_ns(when))
						: -EBADF, ec);
	}
	template <class Duration>
	bool put_off(timer_id id, const std::chrono::time_point<Clock, Duration> &when)
	{
		return detail::or_throw("libhtw::handle::put_off", [&](auto &ec) { return put_off(id, when, ec); });
	}

	/* The time that is left to a timer; none if it has ended, zero if its event can be read. */
	std::optional<std::chrono::nanoseconds> remaining(timer_id id) const
	{
		return detail::remaining(open_set(), number(id));
	}

	/* Stop a timer. False if its last event has been read, or is in the range that a loop goes through. */
	bool stop(timer_id id, std::error_code &ec)
	{
		return detail::check_found(set_ ? ::htw_stop(set_->htw, number(id)) : -EBADF, ec);
	}
	bool stop(timer_id id)
	{
		return detail::or_throw("libhtw::handle::stop", [&](auto &ec) { return stop(id, ec); });
	}

	/* Own a timer: it is stopped when what is returned goes. */
	[[nodiscard]] timer own(timer_id id) { return timer(set_, id); }

	/*
	 * Take the events that are due, at most so many. One thread at a time goes through events and
	 * waits for them; others may start, move and stop timers.
	 */
	event_range<Clock> events(std::size_t most = 512) { return events_into(most, nullptr); }
	event_range<Clock> events(std::size_t most, std::error_code &ec)
	{
		ec.clear();
		if (set_)
			return events_into(most, &ec);
		ec = detail::error(-EBADF);
		return event_range<Clock>(nullptr, nullptr, 0, &ec);
	}

	/* Wait until there are events. False after the timeout, or if a signal was handled. */
	template <class Rep, class Period>
	bool wait(const std::chrono::duration<Rep, Period> &timeout, std::error_code &ec)
	{
		return wait_ns(detail::to_timeout(detail::to_ns(timeout)), ec);
	}
	template <class Rep, class Period> bool wait(const std::chrono::duration<Rep, Period> &timeout)
	{
		return detail::or_throw("libhtw::handle::wait", [&](auto &ec) { return wait(timeout, ec); });
	}
	bool wait(std::error_code &ec) { return wait_ns(-1, ec); }
	bool wait() { return detail::or_throw("libhtw::handle::wait", [&](auto &ec) { return wait(ec); }); }

	/* Move a manual clock. True if something is due. */
	template <class Rep, class Period, class C = Clock,
		  class = std::enable_if_t<std::is_same_v<C, manual_clock>>>
	bool advance(const std::chrono::duration<Rep, Period> &d)
	{
		const int ret = ::htw_advance(open_set(), detail::to_ns(d), 0);

		if (ret < 0)
			detail::fail(detail::error(ret), "libhtw::handle::advance");
		return ret;
	}

private:
	friend basic_dispatcher<Clock>;
	struct empty {};
	explicit basic_handle(empty) noexcept {}

	static std::uint64_t number(timer_id id) noexcept { return static_cast<std::uint64_t>(id); }

	void open(backend where, const settings &how, std::error_code &ec)
	{
		htw_setup_args setup{};
		::htw *opened = nullptr;

		setup.flags = HTW_SETUP_CLOCK;
		if (how.exact)
			setup.flags |= HTW_SETUP_EXACT;
		if (how.ordered)
			setup.flags |= HTW_SETUP_ORDERED;
		if (how.priority_inheritance)
			setup.flags |= HTW_SETUP_PI;
		setup.clock = clock_number<Clock>::value;
		setup.tick_ns = detail::to_ns(how.tick);
		setup.limit = how.limit;
		if (detail::check(::htw_open(&opened, static_cast<enum htw_backend>(where), &setup), ec))
			set_ = std::make_shared<detail::set>(opened);
	}

	::htw *open_set() const
	{
		if (!set_)
			detail::fail(detail::error(-EBADF), "libhtw::handle");
		return set_->htw;
	}

	event_range<Clock> events_into(std::size_t most, std::error_code *ec)
	{
		::htw *htw = open_set();

		if (!queue_)
			queue_ = std::make_unique<detail::queue<Clock>>();
		return event_range<Clock>(htw, queue_.get(), most, ec);
	}

	bool wait_ns(std::int64_t timeout, std::error_code &ec) noexcept
	{
		ec.clear();
		if (queue_ && !queue_->empty())
			return true;
		const int ret = set_ ? ::htw_wait(set_->htw, timeout) : -EBADF;
		return detail::check(ret == -EINTR ? 0 : ret, ec) && ret > 0;
	}

	std::shared_ptr<detail::set> set_;
	std::unique_ptr<detail::queue<Clock>> queue_;
};

/* Owns a timer. It may outlive its handle, and has ended then. */
template <class Clock> class basic_timer {
public:
	basic_timer() noexcept = default;
	basic_timer(basic_timer &&other) noexcept
		: set_(std::move(other.set_)), id_(std::exchange(other.id_, timer_id{})) {}
	basic_timer &operator=(basic_timer &&other) noexcept
	{
		if (this != &other) {
			stop();
			set_ = std::move(other.set_);
			id_ = std::exchange(other.id_, timer_id{});
		}
		return *this;
	}
	~basic_timer() { stop(); }

	timer_id id() const noexcept { return id_; }
	explicit operator bool() const noexcept { return id_ != timer_id{}; }

	/* Give it up without stopping it. */
	timer_id release() noexcept
	{
		set_.reset();
		return std::exchange(id_, timer_id{});
	}

	/* As those of the handle; false also if nothing is owned. */
	bool stop() noexcept
	{
		const auto from = std::move(set_);
		const auto id = static_cast<std::uint64_t>(std::exchange(id_, timer_id{}));

		set_.reset();
		return id && from && !from->closed && !::htw_stop(from->htw, id);
	}
	template <class Rep, class Period> bool rearm(const std::chrono::duration<Rep, Period> &d)
	{
		return moved([&](::htw *htw, std::uint64_t id) { return ::htw_rearm(htw, id, detail::to_ns(d)); });
	}
	template <class Duration> bool put_off(const std::chrono::time_point<Clock, Duration> &when)
	{
		return moved([&](::htw *htw, std::uint64_t id) {
			return ::htw_put_off_inline(htw, id, detail::to_ns(when));
		});
	}

	/* As the handle's; none also if nothing is owned. */
	std::optional<std::chrono::nanoseconds> remaining() const
	{
		if (!set_ || set_->closed)
			return std::nullopt;
		return detail::remaining(set_->htw, static_cast<std::uint64_t>(id_));
	}

private:
	friend basic_handle<Clock>;
	basic_timer(std::shared_ptr<detail::set> of, timer_id id) noexcept : set_(std::move(of)), id_(id) {}

	template <class F> bool moved(F &&f)
	{
		if (!set_ || set_->closed)
			return false;
		return detail::or_throw("libhtw::timer", [&](auto &ec) {
			return detail::check_found(f(set_->htw, static_cast<std::uint64_t>(id_)), ec);
		});
	}

	std::shared_ptr<detail::set> set_;
	timer_id id_{};
};

/* What a function that is being called may do with its own call. */
class this_call {
public:
	this_call(const this_call &) = delete;
	this_call &operator=(const this_call &) = delete;

	call_id id() const noexcept { return id_; }
	/* Have it made again after a delay. False if it was stopped. */
	template <class Rep, class Period> bool again(const std::chrono::duration<Rep, Period> &d) noexcept
	{
		return !::htw_call_again(d_, static_cast<std::uint64_t>(id_), detail::to_ns(d));
	}
	/* Do not make it again. */
	void stop() noexcept { ::htw_call_stop(d_, static_cast<std::uint64_t>(id_)); }
	/* Firings that came due before it was made, beyond the first. */
	std::uint64_t missed() const noexcept { return ::htw_call_missed(d_, static_cast<std::uint64_t>(id_)); }

private:
	template <class F> friend struct call_node;
	friend struct call_base;
	this_call(::htw_dispatcher *d, std::uint64_t id) noexcept : d_(d), id_(call_id(id)) {}

	::htw_dispatcher *d_;
	call_id id_;
};

/* Private: the argument of a call, which owns the function. The library says when it has ended. */
struct call_base {
	call_base() = default;
	call_base(const call_base &) = delete;
	call_base &operator=(const call_base &) = delete;
	virtual ~call_base() = default;
	virtual void run(this_call &c) = 0;
	virtual std::uint64_t next(std::uint64_t) { return HTW_NO_MORE; }

	static void run_it(::htw_dispatcher *d, std::uint64_t id, void *arg)
	{
		this_call c(d, id);

		static_cast<call_base *>(arg)->run(c);
	}
	static std::uint64_t ask_it(std::uint64_t previous, void *arg)
	{
		return static_cast<call_base *>(arg)->next(previous);
	}
	static void free_it(void *arg) { delete static_cast<call_base *>(arg); }
};

template <class F> struct call_node : call_base {
	static_assert(std::is_invocable_v<F &, this_call &> || std::is_invocable_v<F &>,
		      "a call is a function without arguments, or of libhtw::this_call &");
	F f;

	template <class G> explicit call_node(G &&g) : f(std::forward<G>(g)) {}
	void run(this_call &c) override
	{
		if constexpr (std::is_invocable_v<F &, this_call &>)
			f(c);
		else
			f();
	}
};

template <class Clock, class Next, class F> struct scheduled_node final : call_node<F> {
	using time_point = std::chrono::time_point<Clock, std::chrono::nanoseconds>;
	static_assert(std::is_convertible_v<std::invoke_result_t<Next &, time_point>, std::optional<time_point>>,
		      "a schedule is a function of the previous time that returns the next one, or std::nullopt");
	Next ask;

	template <class N, class G> scheduled_node(N &&n, G &&g)
		: call_node<F>(std::forward<G>(g)), ask(std::forward<N>(n)) {}
	std::uint64_t next(std::uint64_t previous) override
	{
		const std::optional<time_point> when = ask(detail::to_time<Clock>(previous));

		return when ? detail::to_ns(*when) : HTW_NO_MORE;
	}
};

template <class Clock> class basic_call;

/*
 * Calls functions at their time, in the thread that dispatches, and owns them: what a function
 * captures is freed once, when its call has ended, in the thread in which that happened: the one that
 * dispatches, if it was made; that which stopped it, before stop returns; or which destroys the
 * dispatcher. One thread dispatches at a time; others may start, move and stop calls.
 */
template <class Clock> class basic_dispatcher {
public:
	using clock = Clock;
	using time_point = std::chrono::time_point<Clock, std::chrono::nanoseconds>;
	using call = basic_call<Clock>;

	explicit basic_dispatcher(backend where = backend::any, const settings &how = {})
		: basic_dispatcher(basic_handle<Clock>(where, how)) {}
	explicit basic_dispatcher(basic_handle<Clock> timers)
	{
		std::error_code ec;

		make(std::move(timers), ec);
		if (ec)
			detail::fail(ec, "libhtw::dispatcher");
	}
	basic_dispatcher(backend where, const settings &how, std::error_code &ec)
	{
		basic_handle<Clock> timers(where, how, ec);

		if (!ec)
			make(std::move(timers), ec);
	}
	basic_dispatcher(basic_dispatcher &&) noexcept = default;
	basic_dispatcher &operator=(basic_dispatcher &&other) noexcept
	{
		if (this != &other) {
			close();
			state_ = std::move(other.state_);
		}
		return *this;
	}
	~basic_dispatcher() { close(); }

	/* End all calls, and close the handle; if called by one of them, when that has returned. */
	void close() noexcept
	{
		const auto gone = std::move(state_);

		state_.reset();
		if (!gone)
			return;
		gone->closing = true;
		end_all(gone->d);
	}

	/* End all calls that are pending. */
	void stop_all()
	{
		const auto kept = state_;

		end_all(dispatcher());
	}

	explicit operator bool() const noexcept { return state_ != nullptr; }
	int fd() const noexcept { return state_ ? state_->timers.fd() : -1; }
	time_point now() const { return open_state().timers.now(); }
	htw_info_args info() const { return open_state().timers.info(); }
	libhtw::backend where() const { return open_state().timers.where(); }
	std::optional<time_point> next_time() const { return open_state().timers.next_time(); }

	template <class Rep, class Period, class C = Clock,
		  class = std::enable_if_t<std::is_same_v<C, manual_clock>>>
	bool advance(const std::chrono::duration<Rep, Period> &d) { return open_state().timers.advance(d); }

	/* Let calls that are started from now on be later by this, to share wakeups. */
	template <class Rep, class Period> void set_slack(const std::chrono::duration<Rep, Period> &d)
	{
		::htw_dispatcher_set_slack(dispatcher(), detail::to_ns(d));
	}

	/*
	 * Make the calls that are due, at most 512; wait for the first one. The dispatcher may be
	 * destroyed by a call. What a call throws comes out of here, and the next dispatch() goes on.
	 * Returns their number: 0 after the timeout, or if a signal was handled.
	 */
	template <class Rep, class Period>
	std::size_t dispatch(const std::chrono::duration<Rep, Period> &timeout, std::error_code &ec)
	{
		return dispatch_ns(detail::to_timeout(detail::to_ns(timeout)), ec);
	}
	template <class Rep, class Period> std::size_t dispatch(const std::chrono::duration<Rep, Period> &timeout)
	{
		return detail::or_throw("libhtw::dispatcher::dispatch",
					[&](auto &ec) { return dispatch(timeout, ec); });
	}
	std::size_t dispatch(std::error_code &ec) { return dispatch_ns(-1, ec); }
	std::size_t dispatch()
	{
		return detail::or_throw("libhtw::dispatcher::dispatch", [&](auto &ec) { return dispatch(ec); });
	}

	/* Call a function once, after a delay. */
	template <class Rep, class Period, class F>
	call_id call_after(const std::chrono::duration<Rep, Period> &d, F &&f, std::error_code &ec)
	{
		return start(std::make_unique<node<F>>(std::forward<F>(f)), ec,
			     [&](auto *to, void *arg, std::uint64_t *id) {
			return ::htw_call_after(to, detail::to_ns(d), call_base::run_it, arg, id);
		});
	}
	template <class Rep, class Period, class F>
	call_id call_after(const std::chrono::duration<Rep, Period> &d, F &&f)
	{
		return detail::or_throw("libhtw::dispatcher::call_after",
					[&](auto &ec) { return call_after(d, std::forward<F>(f), ec); });
	}

	/* Call a function once, at a point in time. */
	template <class Duration, class F>
	call_id call_at(const std::chrono::time_point<Clock, Duration> &when, F &&f, std::error_code &ec)
	{
		return start(std::make_unique<node<F>>(std::forward<F>(f)), ec,
			     [&](auto *to, void *arg, std::uint64_t *id) {
			return ::htw_call_at(to, detail::to_ns(when), call_base::run_it, arg, id);
		});
	}
	template <class Duration, class F>
	call_id call_at(const std::chrono::time_point<Clock, Duration> &when, F &&f)
	{
		return detail::or_throw("libhtw::dispatcher::call_at",
					[&](auto &ec) { return call_at(when, std::forward<F>(f), ec); });
	}

	/* Call a function periodically; it keeps its phase. */
	template <class Rep1, class Period1, class Rep2, class Period2, class F>
	call_id call_every(const std::chrono::duration<Rep1, Period1> &first,
			   const std::chrono::duration<Rep2, Period2> &interval, F &&f, std::error_code &ec)
	{
		return start(std::make_unique<node<F>>(std::forward<F>(f)), ec,
			     [&](auto *to, void *arg, std::uint64_t *id) {
			return ::htw_call_every(to, detail::to_ns(first), detail::to_ns(interval),
						call_base::run_it, arg, id);
		});
	}
	template <class Rep1, class Period1, class Rep2, class Period2, class F>
	call_id call_every(const std::chrono::duration<Rep1, Period1> &first,
			   const std::chrono::duration<Rep2, Period2> &interval, F &&f)
	{
		return detail::or_throw("libhtw::dispatcher::call_every", [&](auto &ec) {
			return call_every(first, interval, std::forward<F>(f), ec);
		});
	}

	/* Call a function at the times that next(previous) returns, until that is std::nullopt. */
	template <class Next, class F> call_id call_schedule(Next &&next, F &&f, std::error_code &ec)
	{
		using scheduled = scheduled_node<Clock, std::decay_t<Next>, std::decay_t<F>>;

		return start(std::make_unique<scheduled>(std::forward<Next>(next), std::forward<F>(f)), ec,
			     [&](auto *to, void *arg, std::uint64_t *id) {
			return ::htw_call_schedule(to, call_base::ask_it, call_base::run_it, arg, id);
		});
	}
	template <class Next, class F> call_id call_schedule(Next &&next, F &&f)
	{
		return detail::or_throw("libhtw::dispatcher::call_schedule", [&](auto &ec) {
			return call_schedule(std::forward<Next>(next), std::forward<F>(f), ec);
		});
	}

	/* Move a call. False if it has ended. */
	template <class Rep, class Period>
	bool call_again(call_id id, const std::chrono::duration<Rep, Period> &d, std::error_code &ec)
	{
		return detail::check_found(state_ ? ::htw_call_again(state_->d, static_cast<std::uint64_t>(id),
								     detail::to_ns(d)) : -EBADF, ec);
	}
	template <class Rep, class Period>
	bool call_again(call_id id, const std::chrono::duration<Rep, Period> &d)
	{
		return detail::or_throw("libhtw::dispatcher::call_again",
					[&](auto &ec) { return call_again(id, d, ec); });
	}

	/*
	 * Stop a call. True if it will not be made (again): its function has been freed, or is running
	 * and is freed when it has returned. False if it had ended.
	 */
	bool call_stop(call_id id, std::error_code &ec)
	{
		const auto kept = state_;	/* what it frees may destroy the dispatcher */
		const int ret = kept ? ::htw_call_stop(kept->d, static_cast<std::uint64_t>(id)) : -EBADF;

		return detail::check_found(ret == -EALREADY ? 0 : ret, ec);
	}
	bool call_stop(call_id id)
	{
		return detail::or_throw("libhtw::dispatcher::call_stop", [&](auto &ec) { return call_stop(id, ec); });
	}

	/* The same, and wait until its function has been freed. From within it: resource_deadlock_would_occur. */
	bool call_stop_wait(call_id id, std::error_code &ec)
	{
		const auto kept = state_;

		return detail::check_found(kept ? ::htw_call_stop_wait(kept->d, static_cast<std::uint64_t>(id))
						: -EBADF, ec);
	}
	bool call_stop_wait(call_id id)
	{
		return detail::or_throw("libhtw::dispatcher::call_stop_wait",
					[&](auto &ec) { return call_stop_wait(id, ec); });
	}

	/* Own a call: it is stopped when what is returned goes. */
	[[nodiscard]] call own(call_id id) { return call(state_, id); }

private:
	friend basic_call<Clock>;
	template <class F> using node = call_node<std::decay_t<F>>;

	/* Kept by a dispatch() that is running, so that a call can destroy the dispatcher. */
	struct state {
		basic_handle<Clock> timers;
		::htw_dispatcher *d = nullptr;
		bool closing = false;

		explicit state(basic_handle<Clock> &&h) noexcept : timers(std::move(h)) {}
		state(const state &) = delete;
		state &operator=(const state &) = delete;
		~state() { ::htw_dispatcher_free(d); }
	};

	void make(basic_handle<Clock> &&timers, std::error_code &ec)
	{
		if (!timers) {
			ec = detail::error(-EBADF);
			return;
		}
		auto made = std::make_shared<state>(std::move(timers));
		if (!detail::check(::htw_dispatcher_new(&made->d, made->timers.native_handle()), ec))
			return;
		::htw_dispatcher_set_release(made->d, call_base::free_it);
		state_ = std::move(made);
	}

	state &open_state() const
	{
		if (!state_)
			detail::fail(detail::error(-EBADF), "libhtw::dispatcher");
		return *state_;
	}
	::htw_dispatcher *dispatcher() const { return open_state().d; }

	static void end_all(::htw_dispatcher *d) noexcept
	{
		std::array<htw_pending_call, 64> ended;
		std::uint64_t cursor = 0;
		unsigned int n, found;

		do {
			found = 0;
			cursor = 0;
			while ((n = ::htw_dispatcher_shutdown(d, &cursor, ended.data(), ended.size())))
				found += n;
		} while (found);
	}

	/* The function belongs to the call once that has been started, and may be gone already. */
	template <class Start> call_id start(std::unique_ptr<call_base> f, std::error_code &ec, Start &&to)
	{
		std::uint64_t id = 0;
		const auto kept = state_;
		const int ret = kept ? to(kept->d, f.get(), &id) : -EBADF;

		if (detail::check(ret, ec))
			static_cast<void>(f.release());
		return call_id(id);
	}

	std::size_t dispatch_ns(std::int64_t timeout, std::error_code &ec)
	{
		const auto kept = state_;
		const int ret = kept ? ::htw_dispatch(kept->d, timeout) : -EBADF;

		return detail::check(ret == -EINTR ? 0 : ret, ec) && ret > 0 ? static_cast<std::size_t>(ret) : 0;
	}

	std::shared_ptr<state> state_;
};

/* Owns a call. It may outlive its dispatcher, and has ended then. */
template <class Clock> class basic_call {
public:
	basic_call() noexcept = default;
	basic_call(basic_call &&other) noexcept
		: of_(std::move(other.of_)), id_(std::exchange(other.id_, call_id{})) {}
	basic_call &operator=(basic_call &&other) noexcept
	{
		if (this != &other) {
			stop();
			of_ = std::move(other.of_);
			id_ = std::exchange(other.id_, call_id{});
		}
		return *this;
	}
	~basic_call() { stop(); }

	call_id id() const noexcept { return id_; }
	explicit operator bool() const noexcept { return id_ != call_id{}; }

	/* Give it up without stopping it. */
	call_id release() noexcept
	{
		of_.reset();
		return std::exchange(id_, call_id{});
	}

	/*
	 * Stop it. If another thread is in its function, wait until that has returned: hold no lock that
	 * it takes. True if it will not be made, and had not ended.
	 */
	bool stop() noexcept
	{
		const auto kept = of_.lock();
		const auto id = static_cast<std::uint64_t>(std::exchange(id_, call_id{}));

		of_.reset();
		if (!kept || !id)
			return false;
		const int ret = ::htw_call_stop_wait(kept->d, id);
		return !ret || (ret == -EDEADLK && ::htw_call_stop(kept->d, id) == -EALREADY);
	}

	/* Move it, or have it made again if it is running. False if it has ended. */
	template <class Rep, class Period> bool again(const std::chrono::duration<Rep, Period> &d)
	{
		const auto kept = of_.lock();

		if (!kept || kept->closing)
			return false;
		return detail::or_throw("libhtw::call::again", [&](auto &ec) {
			return detail::check_found(::htw_call_again(kept->d, static_cast<std::uint64_t>(id_),
								    detail::to_ns(d)), ec);
		});
	}

private:
	using state = typename basic_dispatcher<Clock>::state;
	friend basic_dispatcher<Clock>;
	basic_call(const std::shared_ptr<state> &of, call_id id) noexcept : of_(of), id_(id) {}

	std::weak_ptr<state> of_;
	call_id id_{};
};

using handle = basic_handle<std::chrono::steady_clock>;
using timer = basic_timer<std::chrono::steady_clock>;
using event = basic_event<std::chrono::steady_clock>;
using dispatcher = basic_dispatcher<std::chrono::steady_clock>;
using call = basic_call<std::chrono::steady_clock>;

/* On the clock of the day: deadlines move when it is set. */
using realtime_handle = basic_handle<std::chrono::system_clock>;
using realtime_dispatcher = basic_dispatcher<std::chrono::system_clock>;
using boottime_handle = basic_handle<boottime_clock>;
using boottime_dispatcher = basic_dispatcher<boottime_clock>;
/* For tests that take no time. */
using manual_handle = basic_handle<manual_clock>;
using manual_dispatcher = basic_dispatcher<manual_clock>;

}

#endif // LIBHTW_HPP
