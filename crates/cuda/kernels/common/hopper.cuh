// Included by files whose kernels are launched on Hopper only, though other GPUs could run them: they are compiled for no
// other (`cargo xtask kernels` looks for this name).
#pragma once
