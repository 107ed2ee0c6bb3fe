/* The Go side of waiting for the end of worlds; wait.c is the C side. */
#ifndef LULL_WAIT_H
#define LULL_WAIT_H

#include "lull.h"

/* Makes the id stale and begins to end the world. */
int32_t lullgo_destroy_begin(lull_world_id world);
/* 1 when the world has ended. */
int32_t lullgo_destroy_ended(lull_world_id world);
/* Notes that the world did not end in its time. */
void lullgo_destroy_late(lull_world_id world);
/* Copies the ids of open worlds and returns how many there are. */
int32_t lullgo_open_worlds(lull_world_id *worlds, int32_t capacity);

#endif
