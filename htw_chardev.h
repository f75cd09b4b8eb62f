/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _HTW_CHARDEV_H
#define _HTW_CHARDEV_H

#include <linux/fs.h>

extern const struct file_operations htw_fops;

int htw_chardev_init(void);
void htw_chardev_exit(void);

#endif /* _HTW_CHARDEV_H */
