// The inner loops of products; see avx2.cpp.
#pragma once

#include "isa.hpp"

namespace dayzero::avx2 {

void linear_bf16(const PanelCall& call);
void linear_int4(const PanelCall& call);
void linear_int4_min(const PanelCall& call);
void linear_int8(const PanelCall& call);
void linear_int8_min(const PanelCall& call);
void linear_int8_channel(const PanelCall& call);
void linear_nvfp4(const PanelCall& call);

}  // namespace dayzero::avx2
