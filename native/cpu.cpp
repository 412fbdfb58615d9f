#include <cpuid.h>

#include <cstdint>

#include "isa.hpp"

namespace dayzero {

#if defined(__x86_64__)

namespace {

struct Leaf {
    uint32_t a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf(uint32_t number, uint32_t part) {
    Leaf l;
    __get_cpuid_count(number, part, &l.a, &l.b, &l.c, &l.d);
    return l;
}

bool bit(uint32_t word, int at) { return word >> at & 1; }

// Which registers the system saves: opmask and all halves of zmm.
bool system_saves_zmm() {
    if (!bit(leaf(1, 0).c, 27)) return false;
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 0xe6) == 0xe6;
}

}  // namespace

const char* missing_for_avx512() {
    const Leaf seven = leaf(7, 0), one = leaf(7, 1);
    if (!system_saves_zmm()) return "AVX-512 that the system saves";
    const bool base = bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31);
    if (!base) return "AVX-512 F, DQ, BW and VL";
    if (!bit(seven.c, 1)) return "AVX512-VBMI";
    if (!bit(seven.c, 11)) return "AVX512-VNNI";
    if (!bit(one.a, 5)) return "AVX512-BF16";
    return nullptr;
}

#else

const char* missing_for_avx512() { return "an x86-64 processor"; }

#endif

}  // namespace dayzero
