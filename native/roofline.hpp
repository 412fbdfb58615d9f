// What this machine can do at most, for benchmarks to compare with: how fast a pool of threads reads memory, and how many
// operations a second its arithmetic units finish.
#pragma once

#include <cstdint>
#include <string>

#include "threads.hpp"

namespace dayzero {

// Bytes a second of one pass over [from, from + bytes), a multiple of 64, in equal shares. The start and the end of a run
// count, as they do for an op. Where the bytes lie (cache or memory) is the caller's choice.
double read_bytes_per_s(ThreadPool& pool, const uint8_t* from, int64_t bytes);

// Operations a second (two for each multiply-add) of independent sums in registers, on all threads together.
//
// isa         avx512 or avx2, which this processor must have
// arithmetic  fp32; bf16 (products of pairs summed in float32); int8 (products of fours summed in int32)
double peak_ops_per_s(ThreadPool& pool, const std::string& isa, const std::string& arithmetic);

}  // namespace dayzero
