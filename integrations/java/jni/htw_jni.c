// SPDX-License-Identifier: MIT
/*
 * The native methods of io.htw.Native, on libhtw
 *
 * A handle is the address of a struct timers. Nothing here refers to an object of Java beyond a
 * call: there are no global references.
 */
#include <errno.h>
#include <jni.h>
#include <libhtw.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* As in Native.java. */
enum { BATCH = 256, BUSY = -1 };
enum { OTHER, NO_MEMORY, NO_FILE, NO_PERMISSION, BAD_ARGUMENT, AT_LIMIT };

/* The most timers of a handle in the process. */
#define PROCESS_LIMIT	(1ULL << 26)

struct timers {
	struct htw *htw;
	int wake;	/* an eventfd that ends await() */
};

static struct timers *timers_of(jlong handle)
{
	return (struct timers *)(uintptr_t)handle;
}

static int kind_of(int error)
{
	switch (error) {
	case ENOMEM:
		return NO_MEMORY;
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return NO_FILE;
	case EACCES:
	case EPERM:
		return NO_PERMISSION;
	case EINVAL:
	case ERANGE:
		return BAD_ARGUMENT;
	case ENOSPC:
	case EDQUOT:
		return AT_LIMIT;
	default:
		return OTHER;
	}
}

/* Have a method of Native throw the exception for an error. */
static void throw(JNIEnv *env, jclass native, const char *method, int error)
{
	jmethodID id = (*env)->GetStaticMethodID(env, native, method, "(ILjava/lang/String;I)V");
	char text[128];
	jstring description;

	if (!id)
		return;
	description = (*env)->NewStringUTF(env, strerror_r(error, text, sizeof(text)));
	if (description)
		(*env)->CallStaticVoidMethod(env, native, id, error, description, kind_of(error));
}

/* Open a handle in the process. */
static int open_process(struct htw **htw, struct htw_setup_args setup, bool monotonic)
{
	if (!monotonic) {
		setup.flags |= HTW_SETUP_CLOCK;
		setup.clock = HTW_CLOCK_MANUAL;
	}
	if (!setup.limit)
		setup.limit = PROCESS_LIMIT;
	return htw_open(htw, HTW_BACKEND_PROCESS, &setup);
}

/* Open a handle where the caller wants it. */
static int open_timers(struct htw **htw, enum htw_backend backend,
		       const struct htw_setup_args *setup, bool monotonic)
{
	int ret;

	if (backend == HTW_BACKEND_PROCESS)
		return open_process(htw, *setup, monotonic);
	ret = htw_open(htw, backend, setup);
	if (ret || htw_backend(*htw) == HTW_BACKEND_DEVICE)
		return ret;
	/* HTW_BACKEND_ANY found no device; in the process the clock is another one. */
	htw_close(*htw);
	return open_process(htw, *setup, monotonic);
}

JNIEXPORT jlong JNICALL Java_io_htw_Native_open(JNIEnv *env, jclass native, jint backend,
						jboolean monotonic, jlong tick, jlong limit)
{
	const struct htw_setup_args setup = { .tick_ns = tick, .limit = limit };
	struct timers *timers = malloc(sizeof(*timers));
	int ret = -ENOMEM;

	if (!timers)
		goto failed;
	timers->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (timers->wake < 0) {
		ret = -errno;
		goto no_eventfd;
	}
	ret = open_timers(&timers->htw, backend, &setup, monotonic);
	if (!ret)
		return (jlong)(uintptr_t)timers;

	close(timers->wake);
no_eventfd:
	free(timers);
failed:
	throw(env, native, "cannotOpen", -ret);
	return 0;
}

JNIEXPORT void JNICALL Java_io_htw_Native_close(JNIEnv *env, jclass native, jlong handle)
{
	struct timers *timers = timers_of(handle);

	(void)env;
	(void)native;
	htw_close(timers->htw);
	close(timers->wake);
	free(timers);
}

JNIEXPORT jint JNICALL Java_io_htw_Native_backend(JNIEnv *env, jclass native, jlong handle)
{
	(void)env;
	(void)native;
	return htw_backend(timers_of(handle)->htw);
}

JNIEXPORT jlong JNICALL Java_io_htw_Native_startAfter(JNIEnv *env, jclass native, jlong handle,
						      jlong ns, jlong cookie)
{
	uint64_t id = 0;
	const int ret = htw_after(timers_of(handle)->htw, ns, cookie, &id);

	if (ret)
		throw(env, native, "refused", -ret);
	return id;
}

JNIEXPORT jlong JNICALL Java_io_htw_Native_startAt(JNIEnv *env, jclass native, jlong handle,
						   jlong ns, jlong cookie)
{
	uint64_t id = 0;
	const int ret = htw_at(timers_of(handle)->htw, ns, cookie, &id);

	if (ret)
		throw(env, native, "refused", -ret);
	return id;
}

JNIEXPORT void JNICALL Java_io_htw_Native_stop(JNIEnv *env, jclass native, jlong handle, jlong id)
{
	const int ret = htw_stop(timers_of(handle)->htw, id);

	/* On the device an administrator may have cancelled it. */
	if (ret && ret != -ENOENT)
		throw(env, native, "refused", -ret);
}

JNIEXPORT jint JNICALL Java_io_htw_Native_take(JNIEnv *env, jclass native, jlong handle, jlong now,
					       jlongArray cookies)
{
	struct htw *htw = timers_of(handle)->htw;
	struct htw_event events[BATCH];
	jlong out[BATCH];
	int due = 0, n, i;

	if (now >= 0) {
		due = htw_advance(htw, now, HTW_F_ABS);
		if (due <= 0) {
			if (due)
				throw(env, native, "refused", -due);
			return 0;
		}
	}
	n = htw_read(htw, events, BATCH);
	if (n < 0) {
		throw(env, native, "refused", -n);
		return 0;
	}
	for (i = 0; i < n; i++)
		out[i] = events[i].cookie;
	(*env)->SetLongArrayRegion(env, cookies, 0, n, out);
	return n || !due ? n : BUSY;
}

JNIEXPORT jlong JNICALL Java_io_htw_Native_nextTime(JNIEnv *env, jclass native, jlong handle)
{
	uint64_t when;
	const int ret = htw_next_time(timers_of(handle)->htw, &when);

	if (ret && ret != -ENOENT)
		throw(env, native, "refused", -ret);
	return ret ? INT64_MAX : (jlong)when;
}

JNIEXPORT void JNICALL Java_io_htw_Native_await(JNIEnv *env, jclass native, jlong handle, jlong ns)
{
	struct timers *timers = timers_of(handle);
	struct pollfd fds[] = {
		{ .fd = htw_fd(timers->htw), .events = POLLIN },
		{ .fd = timers->wake, .events = POLLIN },
	};
	const jlong seconds = ns / 1000000000;
	/* A time_t may have 32 bits. */
	const struct timespec limit = {
		.tv_sec = seconds < INT32_MAX ? seconds : INT32_MAX, .tv_nsec = ns % 1000000000,
	};
	eventfd_t count;

	/* That or a signal of the JVM may end the wait: the caller looks, and waits again. */
	if (ppoll(fds, 2, &limit, NULL) < 0 && errno != EINTR)
		throw(env, native, "refused", errno);
	eventfd_read(timers->wake, &count);
}

JNIEXPORT void JNICALL Java_io_htw_Native_wake(JNIEnv *env, jclass native, jlong handle)
{
	(void)env;
	(void)native;
	/* It fails if nobody has read 2^64 - 2 of them: then it is readable. */
	eventfd_write(timers_of(handle)->wake, 1);
}
