/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _HTW_DEBUGFS_H
#define _HTW_DEBUGFS_H

void htw_debugfs_init(void);
void htw_debugfs_exit(void);

#endif /* _HTW_DEBUGFS_H */
