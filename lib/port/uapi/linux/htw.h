/* SPDX-License-Identifier: MIT */
/* The kernel's <uapi/linux/htw.h> is <linux/htw.h> in programs */
#include <linux/htw.h>
