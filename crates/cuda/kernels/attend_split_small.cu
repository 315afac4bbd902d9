// `attend_split` for GPUs with less shared memory than Hopper has.
#include "attend/split_rows.cuh"

ATTEND_SPLIT_OF(kSmallRoom, 2, 64, _small)
ATTEND_SPLIT_OF(kSmallRoom, 2, 128, _small)
ATTEND_SPLIT_OF(kMiddleRoom, 1, 256, _small)
