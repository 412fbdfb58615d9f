// GCC 12 declares 8 of the 64 bytes that `_tile_loadconfig` reads, so the optimiser may drop stores to the others, and
// the tile instructions that follow fault. Naming the whole operand keeps them.
#pragma once

#if defined(__AMX_TILE__)
#include <immintrin.h>

struct TileConfigurationBytes {
    char bytes[64];
};

static inline void load_tile_configuration(const void* configuration) {
    __asm__ volatile("ldtilecfg %0" : : "m"(*static_cast<const TileConfigurationBytes*>(configuration)));
}

#define _tile_loadconfig(configuration) load_tile_configuration(configuration)
#endif
