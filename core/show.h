/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _HTW_SHOW_H
#define _HTW_SHOW_H

struct file;
struct seq_file;

void htw_fdinfo_show(struct seq_file *m, struct file *file);
void htw_debugfs_init(void);
void htw_debugfs_exit(void);

#endif /* _HTW_SHOW_H */
