#include "lock/path.h"
