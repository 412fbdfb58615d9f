// What the instruction set amx adds to avx512, and its proof on the processor at hand.
#pragma once

#include "isa.hpp"

namespace dayzero {

Product product_on_tiles(Format format);
Product product_on_modelled_tiles(Format format);  // the same bits, without the instructions

// Null if a product of bfloat16 and one of int8 have the same bits in both; else what a processor with such tiles lacks.
const char* difference(const Isa& tiles, const Isa& model);

}  // namespace dayzero
