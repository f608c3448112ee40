/* SQL functions of a connection to documents.
 *
 *   mortise_transform(source, list)  the source as the list of transforms makes it; NULL where nothing
 *                                    is changed, or the document is set aside
 *   mortise_aside(source, list)      why it is set aside; NULL where it is not
 *
 * An error where `list` is no list, or `source` no JSON. A list that is a parameter is compiled once
 * for a statement. */
#ifndef MT_SQLITE_FUNCTIONS_H
#define MT_SQLITE_FUNCTIONS_H

#include <sqlite3.h>

/* SQLite's code. */
int mt_functions_add(sqlite3 *handle);

#endif
