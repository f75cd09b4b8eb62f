/* SPDX-License-Identifier: MIT */
/* What the wheel needs of <string.h>, which WebAssembly without a C library has not */
#ifndef HTW_PAGE_STRING_H
#define HTW_PAGE_STRING_H

#include <stddef.h>

void *memset(void *to, int byte, size_t size);
void *memcpy(void *to, const void *from, size_t size);

#endif /* HTW_PAGE_STRING_H */
