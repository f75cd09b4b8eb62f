/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The number of the system call that poll() makes: newer architectures have
 * ppoll() only
 */
#ifndef COMMON_POLL_NUMBER_H
#define COMMON_POLL_NUMBER_H

#include <sys/syscall.h>

#ifdef SYS_poll
#define SYS_OF_POLL	SYS_poll
#else
#define SYS_OF_POLL	SYS_ppoll
#endif

#endif /* COMMON_POLL_NUMBER_H */
