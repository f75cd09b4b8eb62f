/* SPDX-License-Identifier: MIT */
/* <linux/bug.h>: a library does not end the program, nor write to its terminal */
#ifndef LIBHTW_PORT_BUG_H
#define LIBHTW_PORT_BUG_H

#define WARN_ON(condition)	((void)(condition))

#endif /* LIBHTW_PORT_BUG_H */
