#include "base/pump.h"

#include "base/clock.h"

mortise_status mt_loop_pump(mt_loop *loop, const bool *finished, int64_t until_ms,
                            mortise_error *err) {
  mortise_status status = MORTISE_OK;
  while (!*finished && !status) {
    int64_t left = until_ms < 0 ? -1 : until_ms - mt_clock_boot_ms();
    if (until_ms >= 0 && left <= 0)
      status = mt_error_set(err, MORTISE_INTERRUPTED, "it took longer than it was waited for");
    else
      status = mt_loop_step(loop, left, err);
  }
  return status;
}

void mt_flag_set(void *flag) {
  *(bool *)flag = true;
}
