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

constexpr uint32_t kYmm = 0x06, kZmm = 0xe6;  // xmm and the upper halves of ymm; those, opmask and all halves of zmm

bool system_saves(uint32_t registers) {
    if (!bit(leaf(1, 0).c, 27)) return false;
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}

}  // namespace

const char* missing_for_avx512() {
    const Leaf seven = leaf(7, 0), one = leaf(7, 1);
    if (!system_saves(kZmm)) return "AVX-512 that the system saves";
    const bool base = bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31);
    if (!base) return "AVX-512 F, DQ, BW and VL";
    if (!bit(seven.c, 1)) return "AVX512-VBMI";
    if (!bit(seven.c, 11)) return "AVX512-VNNI";
    if (!bit(one.a, 5)) return "AVX512-BF16";
    return nullptr;
}

const char* missing_for_avx2() {
    const Leaf one = leaf(1, 0);
    if (!system_saves(kYmm)) return "AVX that the system saves";
    if (!bit(leaf(7, 0).b, 5)) return "AVX2";
    if (!bit(one.c, 12)) return "FMA";
    if (!bit(one.c, 29)) return "F16C";
    return nullptr;
}

#else

const char* missing_for_avx512() { return "an x86-64 processor"; }
const char* missing_for_avx2() { return "an x86-64 processor"; }

#endif

}  // namespace dayzero
