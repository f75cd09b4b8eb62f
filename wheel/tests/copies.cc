// SPDX-License-Identifier: MIT
/*
 * In C++ a wheel and a node cannot be copied or moved, nor can what has one; all else that a program
 * does with structures of C works
 */
#include "htw_wheel.h"
#include <cstdio>
#include <new>
#include <type_traits>

struct connection {
	int received;
	htw_node timeout;
};

struct timer : htw_node {
	timer() : htw_node() {}
};

template <typename T> struct stays {
	static_assert(!std::is_copy_constructible<T>::value, "a copy");
	static_assert(!std::is_copy_assignable<T>::value, "a copy by =");
	static_assert(!std::is_move_constructible<T>::value, "a move");
	static_assert(!std::is_move_assignable<T>::value, "a move by =");
	static_assert(std::is_default_constructible<T>::value, "none at all");
	static_assert(std::is_trivially_destructible<T>::value, "more than memory");
};

template struct stays<htw_node>;
template struct stays<htw_wheel>;
template struct stays<connection>;
template struct stays<timer>;

/* So HTW_CONTAINER_OF() is right, and C has the same structures. */
static_assert(std::is_standard_layout<htw_node>::value, "a node of C");
static_assert(std::is_standard_layout<htw_wheel>::value, "a wheel of C");
static_assert(std::is_standard_layout<connection>::value, "a structure of C");
static_assert(std::is_trivially_default_constructible<connection>::value, "memory from malloc() will do");

static connection all[2];

int main()
{
	alignas(connection) unsigned char memory[sizeof(connection)];
	connection zeroed = {}, *made = new connection(), *placed;
	htw_node node = {};
	htw_wheel wheel;
	timer derived;
	bool pending;

	for (unsigned char &byte : memory)
		byte = 0xa5;
	placed = new (memory) connection();
	htw_wheel_init(&wheel, 0);
	pending = htw_node_pending(&all[1].timeout) || htw_node_pending(&zeroed.timeout) ||
		  htw_node_pending(&made->timeout) || htw_node_pending(&placed->timeout) ||
		  htw_node_pending(&node) || htw_node_pending(&derived);
	delete made;
	std::printf("%d\n", pending);
	return pending;
}
