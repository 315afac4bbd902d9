// Attention of sequences with few new tokens: decoding, and whatever shapes `attend_tiles` does not take.
#include "attend/split_rows.cuh"
#include "common/hopper.cuh"

// Two blocks per SM, one for the widest heads.
ATTEND_SPLIT_OF(kHalfRoom, 2, 64, )
ATTEND_SPLIT_OF(kHalfRoom, 2, 128, )
ATTEND_SPLIT_OF(kWholeRoom, 1, 256, )
