#include "sqlite/sqlite.h"
