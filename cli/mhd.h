/* libmicrohttpd, for `mortise board` alone: loaded when it is first needed, since it brings GnuTLS with it. */
#ifndef MT_MHD_H
#define MT_MHD_H

#include "late.h"

#include "base/error.h"

#include <microhttpd.h>

#define MT_MHD_FUNCTIONS(EACH) \
  EACH(MHD_start_daemon) EACH(MHD_stop_daemon) EACH(MHD_create_response_from_buffer) \
  EACH(MHD_create_response_from_callback) EACH(MHD_add_response_header) EACH(MHD_destroy_response) \
  EACH(MHD_queue_response) EACH(MHD_suspend_connection) EACH(MHD_resume_connection) \
  EACH(MHD_lookup_connection_value) EACH(MHD_get_connection_values) EACH(MHD_get_connection_info)

typedef struct mt_mhd { MT_MHD_FUNCTIONS(MT_LATE_MEMBER) } mt_mhd;

/* Its functions; NULL, with `err` that names the package, where it is missing. The library stays loaded. */
const mt_mhd *mt_mhd_load(mortise_error *err);

#endif
