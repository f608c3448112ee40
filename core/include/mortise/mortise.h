/* All of libmortise. */
#ifndef MORTISE_H
#define MORTISE_H

#include <mortise/client.h>
#include <mortise/lock.h>
#include <mortise/write.h>

#endif
