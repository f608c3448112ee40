/* SQL functions of a connection to documents.
 *
 *   mortise_transform(source, list)  the changed source; NULL if it is unchanged or set aside
 *   mortise_aside(source, list)      why it is set aside; NULL if it is not
 *
 * They fail if `list` is no list of transforms or `source` is no JSON. A list that is a parameter is
 * compiled once for each statement. */
#ifndef MT_SQLITE_FUNCTIONS_H
#define MT_SQLITE_FUNCTIONS_H

#include <sqlite3.h>

/* SQLite's code. */
int mt_functions_add(sqlite3 *handle);

#endif
