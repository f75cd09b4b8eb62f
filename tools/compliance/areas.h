/* SPDX-License-Identifier: GPL-2.0-only */
/* One function, in a source of its own, for each area of the interface. */
#ifndef AREAS_H
#define AREAS_H

void check_commands(void);
void check_info(void);
void check_setup(void);
void check_add(void);
void check_cancel(void);
void check_mod(void);
void check_query(void);
void check_vector(void);
void check_list(void);
void check_advance(void);
void check_read(void);
void check_uring(void);

#endif /* AREAS_H */
