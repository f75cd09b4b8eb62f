/* SPDX-License-Identifier: MIT */
/* <linux/numa.h> */
#ifndef LIBHTW_PORT_NUMA_H
#define LIBHTW_PORT_NUMA_H

#define NUMA_NO_NODE		(-1)

#endif /* LIBHTW_PORT_NUMA_H */
