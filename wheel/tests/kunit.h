/* SPDX-License-Identifier: MIT */
/*
 * What the KUnit suites of the wheel use of the kernel, so that each is a program, too
 *
 * wheel/run-tests compiles kunit/htw_wheel_kunit.c and kunit/htw_geometry_kunit.c with the
 * two files, and this header in front. It prints TAP. A failed assertion ends the program:
 * there is no longjmp() everywhere. Needs printf(), snprintf(), memory and exit() of C.
 *
 * CONFIG_UML is 1 where a million operations take seconds, else 0.
 */
#ifndef KUNIT_H
#define KUNIT_H

#include "kernel-names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IS_ENABLED(CONFIG_name)		(CONFIG_name)
#define CONFIG_64BIT			(sizeof(void *) == 8)
#define MODULE_DESCRIPTION(text)	_Static_assert(1, text)
#define MODULE_LICENSE(text)		_Static_assert(1, text)
#define cond_resched()			((void)0)

#define GFP_KERNEL			0
#define kvmalloc(size, flags)		((void)(flags), malloc(size))
#define kvcalloc(n, size, flags)	((void)(flags), calloc(n, size))
#define kvfree(memory)			free((void *)(uintptr_t)(memory))

/* Numbers from a seed */
struct rnd_state {
	u64 state;
};

static inline u32 prandom_u32_state(struct rnd_state *rnd)
{
	u64 x = rnd->state;

	/* xorshift64*, by S. Vigna */
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	rnd->state = x;
	return x * 0x2545f4914f6cdd1dULL >> 32;
}

static inline void prandom_seed_state(struct rnd_state *rnd, u64 seed)
{
	rnd->state = seed * 0x9e3779b97f4a7c15ULL + 1;
	for (int i = 0; i < 10; i++)
		prandom_u32_state(rnd);
}

/* Trees: treaps, which a random priority for each node keeps balanced */
struct rb_node {
	struct rb_node *parent, *child[2];
	u32 priority;
};

struct rb_root_cached {
	struct rb_node *top;
};

#define RB_ROOT_CACHED			((struct rb_root_cached){ NULL })
#define rb_entry(node, type, member)	container_of(node, type, member)

/* Where the pointer to a node is. */
static inline struct rb_node **rb_link(struct rb_root_cached *root, struct rb_node *node)
{
	if (!node->parent)
		return &root->top;
	return &node->parent->child[node->parent->child[1] == node];
}

/* Put a node's child in its place, and the node below that. */
static inline void rb_rotate(struct rb_root_cached *root, struct rb_node *node, int side)
{
	struct rb_node *up = node->child[side], *moved = up->child[!side];

	*rb_link(root, node) = up;
	up->parent = node->parent;
	up->child[!side] = node;
	node->parent = up;
	node->child[side] = moved;
	if (moved)
		moved->parent = node;
}

static inline void rb_add_cached(struct rb_node *node, struct rb_root_cached *root,
				 bool (*before)(struct rb_node *a, const struct rb_node *b))
{
	static struct rnd_state rnd = { 1 };
	struct rb_node **link = &root->top, *parent = NULL;

	while (*link) {
		parent = *link;
		link = &parent->child[!before(node, parent)];
	}
	*node = (struct rb_node){ parent, { NULL, NULL }, prandom_u32_state(&rnd) };
	*link = node;

	while (node->parent && node->parent->priority < node->priority)
		rb_rotate(root, node->parent, node->parent->child[1] == node);
}

static inline void rb_erase_cached(struct rb_node *node, struct rb_root_cached *root)
{
	while (node->child[0] && node->child[1])
		rb_rotate(root, node, node->child[1]->priority > node->child[0]->priority);

	struct rb_node *child = node->child[!node->child[0]];

	*rb_link(root, node) = child;
	if (child)
		child->parent = node->parent;
}

static inline struct rb_node *rb_end(struct rb_node *node, int side)
{
	while (node && node->child[side])
		node = node->child[side];
	return node;
}

static inline struct rb_node *rb_first_cached(const struct rb_root_cached *root)
{
	return rb_end(root->top, 0);
}

static inline struct rb_node *rb_prev(const struct rb_node *node)
{
	if (node->child[0])
		return rb_end(node->child[0], 1);
	while (node->parent && node->parent->child[0] == node)
		node = node->parent;
	return node->parent;
}

/* Cases */
#define KUNIT_PARAM_DESC_SIZE		128

struct kunit {
	const void *param_value;
	const char *name;
	char desc[KUNIT_PARAM_DESC_SIZE];
	struct kunit_action *actions;	/* the last one first */
	bool failed;
};

struct kunit_case {
	const char *name;
	void (*run)(struct kunit *test);
	const void *(*generate)(const void *prev, char *desc);
};

struct kunit_suite {
	const char *name;
	const struct kunit_case *test_cases;
};

#define KUNIT_CASE(function)		{ .name = #function, .run = function }
#define KUNIT_CASE_PARAM(function, gen)	{ .name = #function, .run = function, .generate = gen }

#define KUNIT_ARRAY_PARAM(name, array, describe)			\
	static const void *name##_gen_params(const void *prev, char *desc)	\
	{								\
		__typeof__((array)[0]) *next = prev ?			\
			(__typeof__((array)[0]) *)(uintptr_t)prev + 1 : (array);	\
									\
		if (next == (array) + ARRAY_SIZE(array))		\
			return NULL;					\
		describe(next, desc);					\
		return next;						\
	}
#define KUNIT_ARRAY_PARAM_DESC(param, array, member)			\
	static void param##_describe(const __typeof__((array)[0]) *c, char *desc)	\
	{								\
		snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s", (*c).member);	\
	}								\
	KUNIT_ARRAY_PARAM(param, array, param##_describe)

static inline void kunit_failed(struct kunit *test, bool end)
{
	test->failed = true;
	if (end) {
		printf("not ok %s %s\n", test->name, test->desc);
		exit(1);
	}
}

/* @found is what was compared; arguments behind it are a message. */
#define KUNIT_CHECK(test, end, condition, text, ...) do {		\
	if (!(condition)) {						\
		printf("# %s:%d: %s ", __FILE__, __LINE__, text);	\
		printf("" __VA_ARGS__);					\
		putchar('\n');						\
		kunit_failed(test, end);				\
	}								\
} while (0)
#define KUNIT_COMPARE(test, end, a, op, b, ...) do {			\
	const __typeof__(a) a_ = (a);					\
	const __typeof__(b) b_ = (b);					\
									\
	if (!(a_ op b_)) {						\
		printf("# %#llx %s %#llx: ", (unsigned long long)(uintptr_t)a_, #op,	\
		       (unsigned long long)(uintptr_t)b_);		\
		KUNIT_CHECK(test, end, false, #a " " #op " " #b, __VA_ARGS__);	\
	}								\
} while (0)

#define KUNIT_EXPECT_TRUE(test, x)	KUNIT_CHECK(test, false, x, #x)
#define KUNIT_EXPECT_FALSE(test, x)	KUNIT_CHECK(test, false, !(x), "!" #x)
#define KUNIT_EXPECT_NULL(test, x)	KUNIT_CHECK(test, false, !(x), #x " is NULL")
#define KUNIT_EXPECT_NOT_NULL_MSG(test, x, ...)	KUNIT_CHECK(test, false, x, #x, __VA_ARGS__)
#define KUNIT_EXPECT_EQ(test, a, b)	KUNIT_COMPARE(test, false, a, ==, b)
#define KUNIT_EXPECT_PTR_EQ(test, a, b)	KUNIT_COMPARE(test, false, a, ==, b)
#define KUNIT_EXPECT_GE(test, a, b)	KUNIT_COMPARE(test, false, a, >=, b)
#define KUNIT_EXPECT_GT(test, a, b)	KUNIT_COMPARE(test, false, a, >, b)
#define KUNIT_EXPECT_LE(test, a, b)	KUNIT_COMPARE(test, false, a, <=, b)
#define KUNIT_EXPECT_LT(test, a, b)	KUNIT_COMPARE(test, false, a, <, b)

#define KUNIT_ASSERT_TRUE(test, x)	KUNIT_CHECK(test, true, x, #x)
#define KUNIT_ASSERT_TRUE_MSG(test, x, ...)	KUNIT_CHECK(test, true, x, #x, __VA_ARGS__)
#define KUNIT_ASSERT_FALSE(test, x)	KUNIT_CHECK(test, true, !(x), "!" #x)
#define KUNIT_ASSERT_NULL(test, x)	KUNIT_CHECK(test, true, !(x), #x " is NULL")
#define KUNIT_ASSERT_NOT_NULL(test, x)	KUNIT_CHECK(test, true, x, #x " is not NULL")
#define KUNIT_ASSERT_EQ(test, a, b)	KUNIT_COMPARE(test, true, a, ==, b)
#define KUNIT_ASSERT_EQ_MSG(test, a, b, ...)	KUNIT_COMPARE(test, true, a, ==, b, __VA_ARGS__)
#define KUNIT_ASSERT_PTR_EQ(test, a, b)	KUNIT_COMPARE(test, true, a, ==, b)
#define KUNIT_ASSERT_PTR_EQ_MSG(test, a, b, ...) \
	KUNIT_COMPARE(test, true, a, ==, b, __VA_ARGS__)
#define KUNIT_ASSERT_NE(test, a, b)	KUNIT_COMPARE(test, true, a, !=, b)
#define KUNIT_ASSERT_NE_MSG(test, a, b, ...)	KUNIT_COMPARE(test, true, a, !=, b, __VA_ARGS__)
#define KUNIT_ASSERT_GE(test, a, b)	KUNIT_COMPARE(test, true, a, >=, b)
#define KUNIT_ASSERT_GE_MSG(test, a, b, ...)	KUNIT_COMPARE(test, true, a, >=, b, __VA_ARGS__)
#define KUNIT_ASSERT_GT(test, a, b)	KUNIT_COMPARE(test, true, a, >, b)
#define KUNIT_ASSERT_GT_MSG(test, a, b, ...)	KUNIT_COMPARE(test, true, a, >, b, __VA_ARGS__)
#define KUNIT_ASSERT_LE(test, a, b)	KUNIT_COMPARE(test, true, a, <=, b)
#define KUNIT_ASSERT_LT(test, a, b)	KUNIT_COMPARE(test, true, a, <, b)
#define KUNIT_FAIL_AND_ABORT(test, ...)	KUNIT_CHECK(test, true, false, "failed:", __VA_ARGS__)

#define kunit_info(test, ...) do {					\
	(void)(test);							\
	printf("# " __VA_ARGS__);					\
	putchar('\n');							\
} while (0)

/* What is done at the end of a case */
struct kunit_action {
	struct kunit_action *next;
	void (*run)(void *arg);
	void *arg;
};

#define KUNIT_DEFINE_ACTION_WRAPPER(wrapper, function, type)		\
	static void wrapper(void *arg)					\
	{								\
		function((type)arg);					\
	}

static inline int kunit_add_action_or_reset(struct kunit *test, void (*run)(void *arg), void *arg)
{
	struct kunit_action *action = malloc(sizeof(*action));

	if (!action) {
		run(arg);
		return -1;
	}
	*action = (struct kunit_action){ test->actions, run, arg };
	test->actions = action;
	return 0;
}

static inline void kunit_release_action(struct kunit *test, void (*run)(void *arg), void *arg)
{
	struct kunit_action **at = &test->actions, *action;

	while ((*at)->run != run || (*at)->arg != arg)
		at = &(*at)->next;
	action = *at;
	*at = action->next;
	free(action);
	run(arg);
}

static inline void *kunit_kzalloc(struct kunit *test, size_t size, int flags)
{
	void *memory = calloc(1, size);

	(void)flags;
	return memory && !kunit_add_action_or_reset(test, free, memory) ? memory : NULL;
}

static inline void kunit_kfree(struct kunit *test, void *memory)
{
	kunit_release_action(test, free, memory);
}

static inline bool kunit_run_once(const struct kunit_case *c, struct kunit *test)
{
	c->run(test);
	while (test->actions)
		kunit_release_action(test, test->actions->run, test->actions->arg);
	if (test->failed)
		printf("# failed: %s %s\n", c->name, test->desc);
	return !test->failed;
}

/* Return: the program's exit status */
static inline int kunit_run_suite(const struct kunit_suite *suite)
{
	unsigned int count = 0, failed = 0;

	while (suite->test_cases[count].run)
		count++;
	printf("1..%u\n", count);
	for (unsigned int i = 0; i < count; i++) {
		const struct kunit_case *c = &suite->test_cases[i];
		struct kunit test = { .name = c->name };
		unsigned int times = 0;
		bool passed = true;

		if (!c->generate) {
			passed = kunit_run_once(c, &test);
		} else {
			while ((test.param_value = c->generate(test.param_value, test.desc))) {
				passed = kunit_run_once(c, &test) && passed;
				test.failed = false;
				times++;
			}
		}
		failed += !passed;
		printf("%s %s", passed ? "ok" : "not ok", c->name);
		if (times)
			printf(", %u times", times);
		putchar('\n');
	}
	return failed != 0;
}

#define kunit_test_suite(suite)						\
	int main(void)							\
	{								\
		return kunit_run_suite(&(suite));			\
	}								\
	_Static_assert(1, "")

#endif /* KUNIT_H */
