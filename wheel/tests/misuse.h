/* SPDX-License-Identifier: MIT */
/* What a program may have HTW_ASSERT do */
#ifndef MISUSE_H
#define MISUSE_H

#ifdef __cplusplus
extern "C" {
#endif
extern int broken;
#ifdef __cplusplus
}
#endif

#define HTW_ASSERT(condition)	(broken += !(condition))

#endif /* MISUSE_H */
