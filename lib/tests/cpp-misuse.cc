// SPDX-License-Identifier: GPL-2.0-only
// What must not compile with libhtw.hpp: tools/cpp-tests compiles this once for each MISUSE, and once
// without, as the right use of the same names. A comment has what the compiler must name.
#include <libhtw.hpp>
#include <memory>
#include <optional>

using namespace std::chrono_literals;

void use(libhtw::handle &h, libhtw::dispatcher &d, libhtw::realtime_handle &r, libhtw::manual_handle &m)
{
	const auto id = h.after(1s);
	const auto call = d.call_after(1s, [] {});
	const auto wall = std::chrono::system_clock::now();

	h.at(std::chrono::steady_clock::now() + 1s);
	r.at(wall + 1s);
	m.advance(1s);
	d.call_stop(call);
	h.stop(id);
	d.call_after(1s, [p = std::make_unique<int>(1)](libhtw::this_call &c) { c.again(1s); });
	static_cast<void>(h.own(id).release());
#if MISUSE == 1
	h.at(wall + 1s);				// error: at
#elif MISUSE == 2
	r.at(std::chrono::steady_clock::now());		// error: at
#elif MISUSE == 3
	d.call_at(wall + 1s, [] {});			// error: call_at
#elif MISUSE == 4
	h.put_off(id, wall);				// error: put_off
#elif MISUSE == 5
	h.after(1);					// error: after
#elif MISUSE == 6
	h.after(wall);					// error: after
#elif MISUSE == 7
	h.at(1s);					// error: at
#elif MISUSE == 8
	h.stop(call);					// error: stop|timer_id
#elif MISUSE == 9
	h.stop(7);					// error: stop|timer_id
#elif MISUSE == 10
	d.call_stop(id);				// error: call_stop|call_id
#elif MISUSE == 11
	libhtw::handle copy(h);				// error: basic_handle
#elif MISUSE == 12
	libhtw::dispatcher copy(d);			// error: basic_dispatcher
#elif MISUSE == 13
	libhtw::timer t = h.own(id), copy(t);		// error: basic_timer
#elif MISUSE == 14
	libhtw::call c = d.own(call), copy(c);		// error: basic_call
#elif MISUSE == 15
	h.own(id);					// error: nodiscard
#elif MISUSE == 16
	d.own(call);					// error: nodiscard
#elif MISUSE == 17
	h.advance(1s);					// error: advance
#elif MISUSE == 18
	d.call_after(1s, [](int) {});			// error: this_call
#elif MISUSE == 19
	libhtw::dispatcher other(r);			// error: dispatcher
#elif MISUSE == 20
	libhtw::dispatcher other(h);			// error: basic_handle
#elif MISUSE == 21
	static_cast<void>(libhtw::manual_clock::now());	// error: now
#elif MISUSE == 22
	libhtw::basic_handle<std::chrono::time_point<libhtw::boottime_clock>> none;	// error: clock_number|duration|time_point
#elif MISUSE == 23
	d.call_after(1s, [](libhtw::this_call c) { c.stop(); });	// error: this_call
#elif MISUSE == 24
	d.call_schedule([](auto) { return std::optional(std::chrono::system_clock::now()); }, [] {});	// error: schedule|next
#endif
}

int main()
{
	libhtw::handle h(libhtw::backend::process);
	libhtw::dispatcher d(libhtw::backend::process);
	libhtw::realtime_handle r(libhtw::backend::process);
	libhtw::manual_handle m(libhtw::backend::process);

	use(h, d, r, m);
}
