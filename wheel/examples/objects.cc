// SPDX-License-Identifier: MIT
/*
 * Timers as objects of C++: the destructor stops what is pending
 *
 * What is called may throw: the exception passes through htw_wheel_advance(), if
 * htw_wheel.c is compiled as C++ or with -fexceptions. The timer that threw has
 * expired; the next call goes on with the others.
 *
 *	gcc -O2 -fexceptions -c htw_wheel.c && g++ objects.cc htw_wheel.o -o objects
 */
#include "htw_wheel.h"
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

struct Timer : htw_node {
	explicit Timer(htw_wheel &of) : htw_node(), wheel(of) {}
	Timer(const Timer &) = delete;	/* the wheel points to it */
	Timer &operator=(const Timer &) = delete;
	virtual ~Timer() { stop(); }	/* so the wheel has to live longer */

	void start(uint64_t tick) { htw_wheel_restart(&wheel, this, tick); }
	void stop()
	{
		if (htw_node_pending(this))
			htw_wheel_stop(&wheel, this);
	}
	virtual void expired() = 0;

	/* For htw_wheel_advance() */
	static void call(htw_node *n, void *) { static_cast<Timer *>(n)->expired(); }

private:
	htw_wheel &wheel;
};

struct Session : Timer {
	Session(htw_wheel &of, std::string who) : Timer(of), name(std::move(who)) {}
	void expired() override
	{
		if (name == "eve")
			throw std::runtime_error("no session for " + name);
		std::cout << name << " timed out\n";
	}

private:
	std::string name;
};

int main()
{
	htw_wheel wheel;

	htw_wheel_init(&wheel, 0);
	Session alice(wheel, "alice"), eve(wheel, "eve");
	alice.start(20);
	eve.start(10);
	{
		Session bob(wheel, "bob");

		bob.start(5);
	}	/* stopped here */

	while (htw_wheel_count(&wheel)) {
		unsigned int budget = 64;

		try {
			htw_wheel_advance(&wheel, htw_wheel_next(&wheel), &budget,
					  Timer::call, nullptr);
		} catch (const std::exception &e) {
			std::cout << e.what() << '\n';
		}
	}
	return 0;
}
