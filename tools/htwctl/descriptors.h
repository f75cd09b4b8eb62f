/* SPDX-License-Identifier: GPL-2.0-only */
/* Print descriptors as text and as JSON: for list, stat and top. */
#ifndef HTWCTL_DESCRIPTORS_H
#define HTWCTL_DESCRIPTORS_H

#include "htwctl.h"

const char *descriptor_head(void);
const char *descriptor_line(const struct descriptor *d);
struct json_object *descriptor_json(const struct descriptor *d);

#endif /* HTWCTL_DESCRIPTORS_H */
