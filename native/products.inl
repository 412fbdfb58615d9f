// The product of a format, declared inside an instruction set's namespace; what it computes: PanelCall in isa.hpp.

Product product(Format format);
