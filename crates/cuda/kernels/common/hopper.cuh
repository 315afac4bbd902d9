// Included by files whose kernels are launched on Hopper alone, though others could run them: no other GPU gets code for
// them, nor has its driver compile any (`cargo xtask kernels` looks for this name).
#pragma once
