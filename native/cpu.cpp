#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "amx.hpp"
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

// In XCR0: xmm and the upper halves of ymm; those, opmask and all halves of zmm; the shapes of tiles and tiles.
constexpr uint32_t kYmm = 0x06, kZmm = 0xe6, kTiles = 0x60000;

bool system_saves(uint32_t registers) {
    if (!bit(leaf(1, 0).c, 27)) return false;
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}

// A process may use tiles only after it has asked: they make each of its threads larger.
bool may_use_tiles() {
#if defined(__linux__)
    constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
#else
    return false;
#endif
}

const char* look_for_amx() {
    const uint32_t features = leaf(7, 0).d;
    if (!bit(features, 24)) return "AMX-TILE";
    if (!bit(features, 22)) return "AMX-BF16";
    if (!bit(features, 25)) return "AMX-INT8";
    if (const char* missing = missing_for_avx512()) return missing;
    if (!system_saves(kTiles)) return "tiles that the system saves";
    if (!may_use_tiles()) return "the system's leave to use tiles: Linux 5.16";
    return difference(*isa_amx(), *isa_amx_model());
}

}  // namespace

const char* missing_for_amx() {
    static const char* const missing = look_for_amx();
    return missing;
}

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

const char* missing_for_amx() { return "an x86-64 processor"; }
const char* missing_for_avx512() { return "an x86-64 processor"; }
const char* missing_for_avx2() { return "an x86-64 processor"; }

#endif

}  // namespace dayzero
