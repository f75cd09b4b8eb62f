// SPDX-License-Identifier: GPL-2.0-only
/* The table of a dispatcher's calls, by itself. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"

#include "kselftest_harness.h"
#undef ARRAY_SIZE			/* the library has its own */
#include "../calls.h"

/* Of tests without one of their own: a busy machine, with a sanitizer, is slow. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	240

#define CHUNK	1024u		/* calls that are allocated together */

static void nothing(struct htw_dispatcher *d, uint64_t call, void *arg)
{
}

static struct call *make(struct calls *t)
{
	struct call *c = calls_new(t);

	if (c)
		c->fn = nothing;
	return c;
}

/* Memory that this process has mapped, in bytes. */
static uint64_t mapped(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		abort();
	fclose(f);
	return (uint64_t)pages * sysconf(_SC_PAGESIZE);
}

FIXTURE(calls) {
	struct calls t;
};

FIXTURE_SETUP(calls)
{
	calls_init(&self->t);
}

FIXTURE_TEARDOWN(calls)
{
	calls_free(&self->t);
}

TEST_F(calls, new_find_end)
{
	struct call *c[3000];
	uint64_t handle[3000], cursor = 0;
	unsigned int i;

	EXPECT_EQ(NULL, calls_next(&self->t, &cursor));
	for (i = 0; i < 3000; i++) {
		c[i] = make(&self->t);
		ASSERT_NE(NULL, c[i]);
		handle[i] = c[i]->handle;
		EXPECT_NE(0, handle[i]);
	}
	for (i = 0; i < 3000; i++)
		EXPECT_EQ(c[i], calls_find(&self->t, handle[i]));
	for (i = 0; i < 3000; i += 2)
		calls_end(&self->t, c[i]);
	for (i = 0; i < 3000; i++)
		EXPECT_EQ(i % 2 ? c[i] : NULL, calls_find(&self->t, handle[i]));
	for (i = 1, cursor = 0; i < 3000; i += 2)
		EXPECT_EQ(c[i], calls_next(&self->t, &cursor));
	EXPECT_EQ(NULL, calls_next(&self->t, &cursor));
	cursor = ~0ULL;
	EXPECT_EQ(NULL, calls_next(&self->t, &cursor));
}

/* A handle is never used again, also after its memory was given back. */
TEST_F(calls, handles_are_not_used_again)
{
	const unsigned int rounds = 20, most = 3 * CHUNK;
	uint64_t *handle = calloc(rounds * most, sizeof(*handle));
	struct call **c = calloc(most, sizeof(*c));
	unsigned int round, i, n = 0, seed = 1;

	for (round = 0; round < rounds; round++) {
		for (i = 0; i < most; i++) {
			c[i] = make(&self->t);
			ASSERT_NE(NULL, c[i]);
			handle[n++] = c[i]->handle;
		}
		/* Those of earlier rounds have ended. */
		for (i = 0; i < n - most; i++)
			ASSERT_EQ(NULL, calls_find(&self->t, handle[i]));
		for (i = most; i-- > 0; ) {
			const unsigned int k = rand_r(&seed) % (i + 1);

			calls_end(&self->t, c[k]);
			c[k] = c[i];
		}
	}
	free(handle);
	free(c);
}

/* A slot whose generations are used up is not used again; nor is its chunk, once empty. */
TEST_F(calls, generations_run_out)
{
	struct call *c = make(&self->t), *other;
	const uint32_t number = c->handle;
	unsigned int i;

	c->handle |= 0xffffffffULL << 32;
	calls_end(&self->t, c);
	for (i = 0; i < 10 * CHUNK; i++) {
		other = make(&self->t);
		ASSERT_NE(NULL, other);
		EXPECT_NE(number, (uint32_t)other->handle);
		EXPECT_NE(0, other->handle);
		if (i % 2)
			calls_end(&self->t, other);
	}
}

/* Memory comes back after a burst, and growing copies or clears nothing that is large. */
TEST_F(calls, memory)
{
	const unsigned int count = 200 * CHUNK;
	struct call **c = calloc(count, sizeof(*c));
	const uint64_t before = mapped();
	uint64_t full;
	unsigned int i;

	for (i = 0; i < count; i++) {
		c[i] = make(&self->t);
		ASSERT_NE(NULL, c[i]);
	}
	full = mapped();
	EXPECT_LE(before + (uint64_t)count * sizeof(struct call), full);
	EXPECT_GE(before + (uint64_t)count * (sizeof(struct call) + 8), full);
	for (i = 0; i < count; i++)
		calls_end(&self->t, c[i]);
	/* All but one chunk. */
	EXPECT_GE(before + 2 * CHUNK * sizeof(struct call), mapped());

	/* One that stays keeps one. */
	for (i = 0; i < count; i++)
		c[i] = make(&self->t);
	for (i = 0; i < count; i++)
		if (i != count / 2)
			calls_end(&self->t, c[i]);
	EXPECT_GE(before + 3 * CHUNK * sizeof(struct call), mapped());
	EXPECT_EQ(c[count / 2], calls_find(&self->t, c[count / 2]->handle));
	free(c);
}

TEST_HARNESS_MAIN
