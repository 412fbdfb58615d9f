// The products of an instruction set, declared inside its namespace; what they compute: PanelCall in isa.hpp.

void linear_bf16(const PanelCall& call);
void linear_int4(const PanelCall& call);
void linear_int4_min(const PanelCall& call);
void linear_int8(const PanelCall& call);
void linear_int8_min(const PanelCall& call);
void linear_int8_channel(const PanelCall& call);
void linear_nvfp4(const PanelCall& call);
