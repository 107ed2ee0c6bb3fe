/* What C calls in Go besides the entries: wait.c and signals_linux.c. */
#ifndef LULL_WAIT_H
#define LULL_WAIT_H

#include "lull.h"

/* Makes the id stale and begins to end the world. */
int32_t lullgo_destroy_begin(lull_world_id world);
/* Does nothing: makes a thread known to Go. */
void lullgo_touch(void);
/* 1 when the world has ended. */
int32_t lullgo_destroy_ended(lull_world_id world);
/* Notes that the world did not end in its time. */
void lullgo_destroy_late(lull_world_id world);
/* Copies the ids of open worlds and returns how many there are. */
int32_t lullgo_open_worlds(lull_world_id *worlds, int32_t capacity);

#endif
