/* SPDX-License-Identifier: MIT */
/* <linux/string.h> */
#ifndef LIBHTW_PORT_STRING_H
#define LIBHTW_PORT_STRING_H

#include <string.h>

#endif /* LIBHTW_PORT_STRING_H */
